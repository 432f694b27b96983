"""`saguaro chat` over a real tiny model: what it reads, where it writes, how it ends."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from saguaro.cli.main import build_parser


@pytest.fixture
def talk(here, toy, monkeypatch):
    """Lines from a pipe; the answers on standard output."""

    def run(*lines, arguments=()):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return here("chat", *toy, "--temperature", "0", "--max-tokens", "8", "--ignore-eos", *arguments)

    return run


def test_a_pipe_gets_the_answers_and_nothing_else(talk, here, toy, monkeypatch):
    done = talk("a", "/quit", "never read")
    assert done.status == 0, done.err
    assert done.err == ""
    alone = here("generate", *toy, "--chat", "--prompt", "a", "--temperature", "0", "--max-tokens", "8", "--ignore-eos")
    assert done.out == alone.out


def test_history_mode_and_stats(talk):
    done = talk("a", "b", "/clear", "b", "/mode ar", "/retry", "/mode sd", "/mode xx", "/stats")
    fresh = talk("b")
    lines = done.out
    assert lines.count(fresh.out.strip("\n")) >= 2  # after /clear, and by AR: the same tokens
    assert "mode: ar." in lines
    assert "unknown mode 'xx'" in lines
    assert "in all (4): " in lines
    assert done.status == 0


def test_conversation_that_does_not_fit(talk):
    done = talk("word " * 200, "hi", arguments=("--max-model-len", "128"))
    assert "and the context is 128; /clear forgets it. Nothing was answered" in done.out
    assert done.status == 1  # nobody was there to read it


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give --target T --draft D, or --url"),
        (["--url", "http://127.0.0.1:1", "--target", "x", "--draft-device", "cpu:0"], "--target, --draft-device and"),
        (["--url", "ftp://x"], "is no address of a server"),
        (["--url", "http://127.0.0.1:1"], "http://127.0.0.1:1 does not answer: connection refused."),
        (["--target", "toy:llama", "--hystory"], "did you mean '--history'"),
    ],
)
def test_mistakes(here, arguments, words):
    done = here("chat", *arguments)
    assert done.status in (1, 2)
    assert words in done.err
    assert done.err.count("\n") == 1


def test_flags():
    known = build_parser("chat").known()
    assert {"--plain", "--no-history", "--url", "--system"} <= set(known)
    assert not {"--n", "--logprobs", "--prompt-logprobs"} & set(known)


TERMINAL = """
import sys, time
from saguaro.cli import chat
from saguaro.cli.conversation import Conversation, Part

class Slow:
    def answer(self, messages, *, attempt):
        yield Part("content", "**begun** ")
        for _ in range(1 if messages[-1]["content"] == "short" else 600):
            time.sleep(0.1)  # in short pieces, as the engine is waited for
        yield Part("content", "`done`")

reader = chat._reader(history=True, on_screen=True)
view = chat._view(plain=False)
view.note("ready")
sys.exit(0 if Conversation(Slow(), reader, view).run() else 1)
"""


def test_on_a_real_terminal(tmp_path):
    """Typed lines are edited, Ctrl-C stops the answer, Ctrl-D ends; the terminal is as it was."""
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINAL], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    os.close(theirs)
    screen = Screen(mine)
    try:
        screen.wait_for("ready", ">")
        os.write(mine, b"lng\x1b[D\x1b[Do\x05\r")  # an o between l and n
        screen.wait_for("begun")
        process.send_signal(signal.SIGINT)
        screen.wait_for("[stopped]", ">")
        os.write(mine, b"short\r")
        screen.wait_for("done", ">")
        os.write(mine, b"\x04")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(mine)
    kept = (tmp_path / "saguaro/chat-history").read_text("utf-8")
    assert [line for line in kept.splitlines() if line.startswith("+")] == ["+long", "+short"]


class Screen:
    """What a terminal was sent, read in order."""

    def __init__(self, handle):
        self._handle, self._left = handle, ""

    def wait_for(self, *words):
        """Read until the words have come, one after another."""
        end = time.monotonic() + 30
        for each in words:
            while each not in self._left:
                assert time.monotonic() < end, self._left
                if select.select([self._handle], [], [], 0.5)[0]:
                    self._left += os.read(self._handle, 65536).decode()
            self._left = self._left.split(each, 1)[1]


def test_flags_become_fields_of_a_request():
    from saguaro.cli.chat_server import SAME, body_of
    from saguaro.cli.options import SAMPLING_FLAGS
    from saguaro.request import SamplingParams
    from saguaro.server.wire.requests import ChatRequest

    given = {"json_schema": '{"type": "object"}', "logit_bias": {3: 1.5}, "stop": ["x"], "seed": 4}
    body = body_of(SamplingParams(**given), list(given))
    assert body["stop"] == ["x"]
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    ChatRequest.model_validate({"messages": [], **json.loads(json.dumps(body))})
    assert set(ChatRequest.model_fields) >= SAME
    flags = set(SAMPLING_FLAGS) - {"n", "logprobs", "prompt_logprobs"}
    assert flags == SAME | {"logit_bias", "json_schema", "json_object"}
