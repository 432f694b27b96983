"""What a parser promises: text in as it comes, pieces out, the same ones however the text was cut.

Must not know: HTTP, tokens. Tests: tests/conformance/test_parsers.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

Kind = Literal["content", "reasoning", "call", "arguments"]


@dataclass(frozen=True)
class Piece:
    """A piece of an answer.

    `call` begins the call number `number`, and `text` is the function's name; `arguments` is a piece of its JSON.
    """

    kind: Kind
    text: str
    number: int = 0


class Parser(ABC):
    """Reads one answer.

    Attributes:
        mark: a text that is one token for the models of this family, so that the tokenizer tells which parser fits.

    Args:
        names: the functions that may be called.
        begun: the prompt ends where the marked part has already begun.
    """

    mark: ClassVar[str]

    def __init__(self, names: Iterable[str] = (), *, begun: bool = False) -> None:
        self.names = frozenset(names)
        self.begun = begun
        self._text = ""  # what came and was not read yet

    def push(self, text: str) -> list[Piece]:
        """Add text; what is certain now. What may still become a mark is held back."""
        self._text += text
        found: list[Piece] = []
        while self._step(found):
            pass
        return joined(found)

    @abstractmethod
    def _step(self, found: list[Piece]) -> bool:
        """Read on in `_text`, which loses what was read; whether there may be another step."""

    @abstractmethod
    def finish(self) -> list[Piece]:
        """The rest, now that no text follows."""


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours of one kind as one piece, empty ones left out (a call is never empty)."""
    found: list[Piece] = []
    for piece in pieces:
        if not piece.text:
            continue
        last = found[-1] if found else None
        if last is not None and piece.kind != "call" and (last.kind, last.number) == (piece.kind, piece.number):
            found[-1] = Piece(piece.kind, last.text + piece.text, piece.number)
        else:
            found.append(piece)
    return found


def overlap(text: str, mark: str) -> int:
    """Length of the longest end of `text` that begins, but does not complete, `mark`."""
    for length in range(min(len(text), len(mark) - 1), 0, -1):
        if mark.startswith(text[-length:]):
            return length
    return 0
