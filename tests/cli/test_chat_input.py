"""Lines from a pipe and from an editor; the history is the user's alone."""

import io
import os
import stat

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from saguaro.cli.chat_input import EditingReader, PlainReader, prepare_history, state_folder
from saguaro.errors import ConfigError

UP, ALT_ENTER, CTRL_C, CTRL_D = "\x1b[A", "\x1b\r", "\x03", "\x04"


def plain(text, **options):
    return PlainReader(io.StringIO(text), **{"interactive": False, **options})


def test_plain_lines_and_continued_ones(capsys):
    reader = plain("one\ntwo \\\nlines\nlast")
    assert [reader.read() for _ in range(3)] == ["one", "two \nlines", "last"]
    with pytest.raises(EOFError):
        reader.read()
    assert plain("open\\").read() == "open"
    assert capsys.readouterr() == ("", "")


def test_a_terminal_is_asked_on_standard_error(capsys):
    plain("a\\\nb\n", interactive=True).read()
    assert capsys.readouterr() == ("", "> . ")


def test_bytes_that_are_no_text():
    source = io.TextIOWrapper(io.BytesIO(b"\xff\n"), encoding="utf-8")
    with pytest.raises(ConfigError, match="not UTF-8"):
        PlainReader(source, interactive=False).read()


@pytest.fixture
def typed():
    """Read messages from keys; each group of them is pressed when the last one has been drawn."""

    def read(*keys, history=None, messages=1):
        with create_pipe_input() as source:
            reader = EditingReader(["/stats", "/save"], history, source=source, out=DummyOutput())
            left = list(keys)
            reader._session.app.after_render += lambda _: left and source.send_text(left.pop(0))
            return [reader.read() for _ in range(messages)]

    return read


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("hello\r", "hello"),
        (f"two{ALT_ENTER}lines\r", "two\nlines"),
        ("two\\\rlines\r", "two\nlines"),
        ("\x1b[200~def f():\n    pass\x1b[201~\r", "def f():\n    pass"),  # pasted
        (f"dropped{CTRL_C}kept\r", "kept"),
    ],
)
def test_keys(typed, keys, message):
    assert typed(keys) == [message]


def test_what_was_dropped_comes_back(typed):
    assert typed(f"dropped{CTRL_C}", UP, "\r") == ["dropped"]


def test_commands_are_completed():
    with create_pipe_input() as source:
        reader = EditingReader(["/stats", "/save"], None, source=source, out=DummyOutput())
        found = reader._session.completer.get_completions(Document("/st"), CompleteEvent())
        assert [each.text for each in found] == ["/stats"]


@pytest.mark.parametrize(("key", "error"), [(CTRL_C, KeyboardInterrupt), (CTRL_D, EOFError)])
def test_keys_that_end(typed, key, error):
    with pytest.raises(error):
        typed(key)


def test_history_is_kept_across_runs_for_the_user_alone(typed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    old = os.umask(0)
    try:
        path = prepare_history(state_folder())
    finally:
        os.umask(old)
    assert path == tmp_path / "state/saguaro/chat-history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    typed("first\r", "sec\\\rond\r", history=path, messages=2)
    path.chmod(0o644)
    assert prepare_history(state_folder()) == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert typed(UP, "\r", history=path) == ["sec\nond"]


def test_without_a_file_nothing_is_kept(typed, tmp_path):
    assert typed("a\r", UP, "\r", messages=2) == ["a", "a"]
    assert not list(tmp_path.iterdir())


def test_a_history_that_cannot_be_written_costs_no_message(typed, tmp_path, capsys):
    assert typed("kept\r", history=tmp_path) == ["kept"]  # a folder
    assert "the history cannot be written: Is a directory." in capsys.readouterr().err


def test_state_folder(monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert state_folder().parts[-2:] == (".local", "state")
