"""Markdown that grows: what was printed for good is what the whole text would look like, nothing is lost or twice."""

import io
import re

import pytest
from rich.console import Console

from saguaro.cli.chat_view import Formatted, MarkdownView, PlainView, settled

TEXT = """# Title

A paragraph with **bold** words
on two lines.

- one
- two

  still two

```python
def f():

    return "<b>"
```

| a | b |
|---|---|
| 1 | 2 |

1. first
2. second

<think> is no mark here, [a link](http://x.test/y) is.
"""


def console(**options):
    return Console(
        **{
            "file": io.StringIO(), "force_terminal": True, "width": 60, "height": 30, "color_system": None,
            "legacy_windows": False, "_environ": {"TERM": "xterm"}, **options,
        }
    )  # fmt: skip


class Screen:
    """The lines that a terminal holds at the end, scrollback included: it knows the codes that Live writes."""

    def __init__(self, text):
        self.lines, self.row, self.column = [""], 0, 0
        while text:
            text = self.take(text)

    def take(self, text):
        if text.startswith("\x1b["):
            end = next(i for i, c in enumerate(text[2:], 2) if c.isalpha())
            self.control(text[end], text[2:end])
            return text[end + 1 :]
        character = text[0]
        if character == "\n":
            self.row, self.column = self.row + 1, 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        elif character == "\r":
            self.column = 0
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1
        return text[1:]

    def control(self, letter, argument):
        if letter == "A":
            self.row -= int(argument or 1)
            assert self.row >= 0
        elif letter == "K":
            assert argument == "2"
            self.lines[self.row] = ""

    def shown(self):
        return [line.rstrip() for line in self.lines if line.strip()]


def whole(text, **options):
    out = console(**options)
    out.print(Formatted(text))
    return Screen(out.file.getvalue()).shown()


def streamed(pieces, monkeypatch, **options):
    monkeypatch.setattr("saguaro.cli.chat_view.REFRESH_SECONDS", 0.0)
    monkeypatch.setattr("saguaro.cli.chat_view.DRAWING_SHARE", 1e9)
    out = console(**options)
    with MarkdownView(out).answer() as answer:
        for piece in pieces:
            answer.add(*(("content", piece) if isinstance(piece, str) else piece))
    return out.file.getvalue()


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("height", [6, 40])
def test_a_stream_ends_as_the_whole_text(size, height, monkeypatch):
    pieces = [TEXT[i : i + size] for i in range(0, len(TEXT), size)]
    screen = Screen(streamed(pieces, monkeypatch, height=height))
    assert screen.shown() == whole(TEXT)


def test_what_is_written_is_shown():
    text = "\n".join(whole(TEXT))
    assert "<think> is no mark here" in text
    assert "http://x.test/y" in text
    assert '"<b>"' in text


def test_a_growing_block_is_never_taller_than_the_screen(monkeypatch):
    """A terminal cannot take back lines that have left its screen."""
    lines = [f"    line {number}\n" for number in range(40)]
    written = streamed(["```\n", *lines, "```\n"], monkeypatch, height=10)
    runs = re.findall(r"(?:\x1b\[1A\x1b\[2K)+", written)
    assert 1 < max(run.count("A") for run in runs) < 10
    shown = Screen(written).shown()
    assert [line.split()[-1] for line in shown] == [str(number) for number in range(40)]


def test_drawing_rests_between_pieces():
    out = console()
    with MarkdownView(out).answer() as answer:
        answer.add("content", "first")
        size = len(out.file.getvalue())
        answer.add("content", " second")
        assert len(out.file.getvalue()) == size
    assert "first second" in "\n".join(Screen(out.file.getvalue()).shown())


def test_reasoning_stands_before_the_answer(monkeypatch):
    written = streamed([("reasoning", "one\ntw"), ("reasoning", "o *x*"), "**ans", "wer**"], monkeypatch)
    assert Screen(written).shown() == ["one", "two *x*", "answer"]


def test_control_characters_move_nothing(monkeypatch):
    written = streamed(["a\x1b[2Jb\x07"], monkeypatch)
    assert "\x1b[2J" not in written
    assert "a·[2Jb·" in written


def test_an_interrupted_answer_is_shown_and_the_cursor_is_back():
    out = console()

    def interrupted():
        with MarkdownView(out).answer() as answer:
            answer.add("content", "a")
            answer.add("content", "bc")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "abc" in "".join(Screen(out.file.getvalue()).shown())
    assert out.file.getvalue().rindex("\x1b[?25h") > out.file.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("one paragraph\nstill it", ""),
        ("one\n\ntwo\n", "one\n\n"),
        ("one\n\ntw", ""),  # `tw` may become anything
        ("- a\n- b\n\n  c\n", ""),
        ("```\na\n\nb\n", ""),
        ("```\na\n```\nnext\n", "```\na\n```\n"),
        ("a\n---\nb\n\u2028c\n", "a\n---\n"),
        ("", ""),
    ],
)
def test_settled(text, done):
    assert text[: settled(text)] == done


def test_plain_is_the_text_and_nothing_else():
    out = io.StringIO()
    view = PlainView(out)
    with view.answer() as sink:
        for piece in ("a\x1b", "b*"):
            sink.add("content", piece)
    view.note("said.")
    assert out.getvalue() == "a\x1bb*\nsaid.\n"
    with view.answer() as sink:
        sink.add("reasoning", "hm")
        sink.add("content", "x")
    assert out.getvalue().endswith("[reasoning] hm\n\nx\n")
