"""How the demo looks: three columns side by side that fill live on a terminal, or plain text elsewhere.

Tokens are coloured by where they came from. Must not know: engines. Tests: tests/cli/test_demo.py.
"""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from saguaro.request import Delta

if TYPE_CHECKING:
    from saguaro.models.tokenizer import TextCodec

# origin of a token: (what the legend calls it, style)
ORIGINS = {
    "hit": ("accepted, from a cache hit", "bold green"),
    "fallback": ("accepted, drafted on demand", "yellow"),
    "bonus": ("the target's own token", "default"),
    "prefill": ("the first token", "dim"),
}
REFRESH_SECONDS = 0.15
PANEL_FRAME = 2  # lines of a panel's border
RESERVED_LINES = 5  # heading, legend and a line to spare

# A model may write anything; what would move the cursor is shown as a dot.
CONTROLS = {code: "·" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}

Piece = tuple[str, str]  # text and the origin of the token that completed it


class Pieces:
    """Splits deltas into text by origin, holding back bytes that are not a whole character yet."""

    def __init__(self, tokenizer: TextCodec) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def split(self, delta: Delta) -> Iterator[Piece]:
        """The texts of a delta's tokens, each with its origin; special tokens have no text."""
        for token, origin in zip(delta.token_ids, delta.origins, strict=True):
            if token not in self._tokenizer.special_ids:
                text = self._decoder.decode(self._tokenizer.token_bytes(token))
                if text:
                    yield text.translate(CONTROLS), origin


@dataclass
class Column:
    """One mode's output so far."""

    title: str
    status: str = "waits"
    pieces: list[Piece] = field(default_factory=list)

    def text(self) -> Text:
        """Everything, coloured."""
        text = Text(overflow="fold")
        for piece, origin in self.pieces:
            text.append(piece, style=ORIGINS[origin][1])
        return text


class View(Protocol):
    """What the demo tells a view."""

    def status(self, column: Column, text: str) -> None:
        """A column's state changed."""

    def pieces(self, column: Column, pieces: Sequence[Piece]) -> None:
        """A column got more text."""


class LiveView:
    """Columns on a terminal, redrawn a few times a second; long texts show their end while they grow."""

    def __init__(self, console: Console, columns: Sequence[Column]) -> None:
        self._console, self._columns = console, columns
        self._drawn = 0.0
        self._live = Live(console=console, auto_refresh=False, transient=True, get_renderable=self._render)

    @contextmanager
    def shown(self) -> Iterator[View]:
        """Draw inside; at the end the whole texts stay on the screen."""
        with self._live:
            yield self
        self._console.print(Group(legend(), side_by_side(self._columns)))

    def status(self, column: Column, text: str) -> None:
        """A column's state changed."""
        column.status = text
        self._draw(now=True)

    def pieces(self, column: Column, pieces: Sequence[Piece]) -> None:
        """A column got more text."""
        column.pieces += pieces
        self._draw(now=False)

    def _draw(self, *, now: bool) -> None:
        if now or time.monotonic() - self._drawn >= REFRESH_SECONDS:
            self._live.refresh()
            self._drawn = time.monotonic()

    def _render(self) -> RenderableType:
        lines = max(3, self._console.height - PANEL_FRAME - RESERVED_LINES)
        return Group(legend(), side_by_side(self._columns, lines=lines, console=self._console))


class PlainView:
    """One text after another, without colours: for files and pipes."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns

    @contextmanager
    def shown(self) -> Iterator[View]:
        """Nothing to prepare."""
        yield self
        print(flush=True)

    def status(self, column: Column, text: str) -> None:
        """A column's state changed."""
        column.status = text
        print(f"\n== {column.title}: {text}", flush=True)

    def pieces(self, column: Column, pieces: Sequence[Piece]) -> None:
        """A column got more text."""
        column.pieces += pieces
        print("".join(text for text, _ in pieces), end="", flush=True)


def open_view(columns: Sequence[Column], *, plain: bool) -> LiveView | PlainView:
    """Live on a terminal, plain otherwise or when asked."""
    console = Console()
    if plain or not console.is_terminal or not sys.stdout.isatty():
        return PlainView(columns)
    return LiveView(console, columns)


def legend() -> Text:
    """The colours and what they mean."""
    text = Text()
    for name, style in ORIGINS.values():
        text.append("■ ", style=style).append(f"{name}   ")
    return text


def side_by_side(columns: Sequence[Column], *, lines: int | None = None, console: Console | None = None) -> Table:
    """The columns as panels of equal width; with `lines`, only the last lines of each text."""
    grid = Table.grid(expand=True)
    panels = []
    for column in columns:
        grid.add_column(ratio=1)
        text = column.text()
        if lines is not None and console is not None:
            width = max(10, console.width // len(columns) - 4)
            wrapped = text.wrap(console, width, overflow="fold")
            text = Text("\n").join(wrapped[-lines:])
        panels.append(
            Panel(text, title=f"{column.title}", subtitle=column.status, height=lines and lines + PANEL_FRAME)
        )
    grid.add_row(*panels)
    return grid
