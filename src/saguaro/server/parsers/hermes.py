"""Calls between `<tool_call>` and `</tool_call>`, one JSON object each: Qwen 2.5 and Qwen 3.

Text before, between and after calls is content; white space next to a call is dropped. A block without its end counts
as far as it goes, and one that is no call is content. Tests: tests/conformance/test_parsers.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from saguaro.server.parsers.base import Parser, Piece, joined, overlap
from saguaro.server.parsers.call_scanner import CallScanner

OPEN, CLOSE = "<tool_call>", "</tool_call>"


class Hermes(Parser):
    """See the module."""

    mark = OPEN

    def __init__(self, names: Iterable[str] = (), *, begun: bool = False) -> None:
        super().__init__(names, begun=begun)
        self._text = ""
        self._scanner: CallScanner | None = None
        self._closing = False
        self._calls = 0
        self._announced = False
        self._gap = ""  # white space before the present block: shown again if it is no call

    def push(self, text: str) -> list[Piece]:
        self._text += text
        found: list[Piece] = []
        while self._step(found):
            pass
        return joined(found)

    def finish(self) -> list[Piece]:
        found: list[Piece] = []
        if self._scanner is not None and not self._announced:
            found.append(Piece("content", self._gap + OPEN + self._scanner.seen))
        elif self._scanner is None and not self._closing and (self._text.strip() or not self._calls):
            found.append(Piece("content", self._text))
        self._text, self._scanner, self._closing = "", None, False
        return joined(found)

    def _step(self, found: list[Piece]) -> bool:
        """One step of reading; whether there may be another."""
        if self._closing:
            return self._close()
        if self._scanner is not None:
            return self._scan(self._scanner, found)
        before, mark, after = self._text.partition(OPEN)
        if mark:
            found.append(Piece("content", before.rstrip()))
            self._gap = before[len(before.rstrip()) :]
            self._text, self._scanner, self._announced = after, CallScanner(), False
            return True
        sure = len(self._text) - overlap(self._text, OPEN)
        sure = len(self._text[:sure].rstrip())
        found.append(Piece("content", self._text[:sure]))
        self._text = self._text[sure:]
        return False

    def _scan(self, scanner: CallScanner, found: list[Piece]) -> bool:
        arguments, self._text = scanner.push(self._text), ""
        if scanner.name is not None and not self._announced:
            self._announced = True
            found.append(Piece("call", scanner.name, self._calls))
        found.append(Piece("arguments", arguments, self._calls))
        if not scanner.done and not scanner.broken:
            return False
        self._scanner, self._text = None, scanner.rest
        if self._announced:
            self._calls += 1
            self._closing = True
        else:
            found.append(Piece("content", self._gap + OPEN + scanner.seen))
        return True

    def _close(self) -> bool:
        """Drop the end of a block; another text behind the object is content."""
        ahead = self._text.lstrip()
        if ahead.startswith(CLOSE):
            self._text = ahead[len(CLOSE) :]
        elif CLOSE.startswith(ahead):
            return False  # more may come
        self._closing = False
        return True
