"""What one answer's text is read as: reasoning, content and calls, by the parsers that fit the model.

`Parsers` are chosen once a server, by name or by the tokenizer: a family's mark is one token of its vocabulary. An
`AnswerReader` reads one answer, whole or piece by piece with the same result. Must not know: HTTP, engines.
Tests: tests/server/test_answers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from saguaro.models.tokenizer import TextCodec
from saguaro.registry import Table
from saguaro.server.parsers import REASONING, TOOLS
from saguaro.server.parsers.base import Parser, Piece, joined

AUTO, NONE = "auto", "none"


@dataclass(frozen=True)
class Parsers:
    """The parsers of a served model; None where it has none."""

    tools: type[Parser] | None
    reasoning: type[Parser] | None

    @classmethod
    def of(cls, tokenizer: TextCodec, *, tools: str = AUTO, reasoning: str = AUTO) -> Parsers:
        """By name (`none` is none), or `auto`: the first member whose mark is one token.

        Raises:
            ConfigError: an unknown name.
        """
        return cls(_chosen(TOOLS, tools, tokenizer), _chosen(REASONING, reasoning, tokenizer))


def _chosen(table: Table, name: str, tokenizer: TextCodec) -> type[Parser] | None:
    if name == NONE:
        return None
    if name != AUTO:
        found: type[Parser] = table.get(name)
        return found
    members: Iterable[type[Parser]] = (table.get(each) for each in table)
    return next((each for each in members if len(tokenizer.encode(each.mark, add_special=False)) == 1), None)


class NamedCall(Parser):
    """The whole text is the arguments of one function (`tool_choice` names it, a grammar holds it to its schema)."""

    mark = ""

    def __init__(self, name: str) -> None:
        super().__init__((name,))
        self._begin = [Piece("call", name)]

    def _step(self, found: list[Piece]) -> bool:
        found += [*self._begin, Piece("arguments", self._text)]
        self._begin, self._text = [], ""
        return False

    def finish(self) -> list[Piece]:
        return self.push("")


@dataclass
class Answer:
    """What has been read of an answer: its text by kind, and its calls as (name, arguments)."""

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        """The next piece."""
        if piece.kind == "content":
            self.content += piece.text
        elif piece.kind == "reasoning":
            self.reasoning += piece.text
        elif piece.kind == "call":
            self.calls.append((piece.text, ""))
        else:
            name, arguments = self.calls[piece.number]
            self.calls[piece.number] = (name, arguments + piece.text)


class AnswerReader:
    """Reads one answer; with neither parser all of it is content.

    Args:
        reasoning, tools: parsers; the second reads what the first calls content.
        single: pieces of any call but the first are dropped (`parallel_tool_calls` is false).
    """

    def __init__(self, reasoning: Parser | None = None, tools: Parser | None = None, *, single: bool = False) -> None:
        self._reasoning, self._tools, self._single = reasoning, tools, single
        self.answer = Answer()

    def push(self, text: str) -> list[Piece]:
        """Add text; the pieces that are certain now."""
        pieces = self._reasoning.push(text) if self._reasoning else joined([Piece("content", text)])
        return self._take(self._through_tools(pieces))

    def finish(self) -> list[Piece]:
        """The rest."""
        pieces = self._through_tools(self._reasoning.finish() if self._reasoning else [])
        return self._take([*pieces, *(self._tools.finish() if self._tools else [])])

    def _through_tools(self, pieces: Sequence[Piece]) -> list[Piece]:
        if self._tools is None:
            return list(pieces)
        found: list[Piece] = []
        for piece in pieces:
            found += self._tools.push(piece.text) if piece.kind == "content" else [piece]
        return found

    def _take(self, pieces: Sequence[Piece]) -> list[Piece]:
        kept = [piece for piece in joined(pieces) if not (self._single and piece.number > 0)]
        for piece in kept:
            self.answer.add(piece)
        return kept


MakeReader = Callable[[], AnswerReader]
