"""How answers look while they come: Markdown that grows on a terminal, plain text elsewhere or when asked.

Blocks of Markdown that cannot change any more are printed for good, so they are in the terminal's scrollback; only the
last block is drawn again as it grows, its end alone when it is taller than the screen.
Must not know: conversations, engines. Tests: tests/cli/test_chat_view.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

from saguaro.cli.demo_view import CONTROLS

# Marks of HTML are shown as they are written: a model's text must not vanish.
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
REFRESH_SECONDS = 0.1
DRAWING_SHARE = 0.05
"""Of the time that may go into drawing: the terminal shares a core with the draft."""
SPARE_LINES = 2
FIRST_WORD = "[reasoning] "


class PlainView:
    """Text as it comes. On a terminal, characters that would move the cursor are shown as dots."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._table = CONTROLS if out.isatty() else {}

    def note(self, text: str) -> None:
        """A line of its own."""
        self._write(text + "\n")

    @contextmanager
    def answer(self) -> Iterator[PlainView]:
        """One answer, on lines of its own."""
        self._kind = "content"
        try:
            yield self
        finally:
            self._write("\n")

    def add(self, kind: str, text: str) -> None:
        """The next piece."""
        if kind != self._kind:
            self._write(FIRST_WORD if kind == "reasoning" else "\n\n")
            self._kind = kind
        self._write(text)

    def _write(self, text: str) -> None:
        self._out.write(text.translate(self._table))
        self._out.flush()


class MarkdownView:
    """Markdown on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note(self, text: str) -> None:
        """A line of its own, dim."""
        self._console.print(Text(text.translate(CONTROLS), style="dim"), soft_wrap=True)

    @contextmanager
    def answer(self) -> Iterator[GrowingAnswer]:
        """One answer, with a free line around it."""
        growing = GrowingAnswer(self._console)
        self._console.print()
        with Live(growing, console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
            growing.live = live
            try:
                yield growing
            finally:
                growing.finish()
        self._console.print()


class GrowingAnswer:
    """An answer under way; what is not printed for good yet is drawn where the cursor is."""

    live: Live

    def __init__(self, console: Console) -> None:
        self._console = console
        self._kind = "content"
        self._rest = ""
        self._begun = False  # something was printed for good
        self._due = 0.0

    def add(self, kind: str, text: str) -> None:
        """The next piece; drawn now, or with a later one when the last drawing was a moment ago."""
        if kind != self._kind:
            if self._rest.strip():
                self._settle(len(self._rest))
            self._kind, self._rest = kind, ""
        self._rest += text.translate(CONTROLS)
        begin = time.monotonic()
        if begin < self._due:
            return
        self._settle(settled(self._rest) if kind == "content" else self._rest.rfind("\n") + 1)
        took = time.monotonic() - begin
        self._due = begin + max(REFRESH_SECONDS, took / DRAWING_SHARE)

    def finish(self) -> None:
        """Print what is left for good."""
        self._settle(len(self._rest))

    def _settle(self, length: int) -> None:
        """Print the first characters for good and draw the rest, in one go."""
        done, self._rest = self._rest[:length], self._rest[length:]
        with self._console:
            if done.strip():
                if self._begun and self._kind == "content":
                    self._console.print()
                self._console.print(self._looks(done))
                self._begun = True
            self.live.refresh()

    def _looks(self, text: str) -> RenderableType:
        return Formatted(text) if self._kind == "content" else Text(text.strip("\n"), style="dim italic")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The rest, its end when it is taller than the screen."""
        if not self._rest.strip():
            return
        rows = console.render_lines(self._looks(self._rest), options, pad=False)
        if self._begun and self._kind == "content":
            rows.insert(0, [])
        for row in rows[-max(1, console.height - SPARE_LINES) :]:
            yield from row
            yield Segment.line()


class Formatted(Markdown):
    """Markdown in the terminal's own colours; links show where they lead."""

    def __init__(self, text: str) -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        self.markup, self.parsed = text, PARSER.parse(text)


def settled(text: str) -> int:
    """Length of the beginning of a growing text whose looks are final: every block but the last of its whole lines."""
    whole = text[: text.rfind("\n") + 1]
    starts = [token.map[0] for token in PARSER.parse(whole) if token.level == 0 and token.map and token.nesting >= 0]
    if len(starts) < 2:
        return 0
    return sum(len(line) + 1 for line in whole.split("\n")[: starts[-1]])
