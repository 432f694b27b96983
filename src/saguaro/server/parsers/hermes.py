"""Calls between `<tool_call>` and `</tool_call>`, one JSON object each: Qwen 2.5 and Qwen 3.

Text before, between and after calls is content; white space next to a call is dropped. A block without its end counts
as far as it goes, and one that is no call is content. Coder models often leave the marks out: an answer that begins
with the call of a known function is taken for one. Tests: tests/conformance/test_parsers.py.
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
        self._before = ""  # what was read over before the present object: shown again if it is no call
        self._only_calls = True  # no other text came so far

    def push(self, text: str) -> list[Piece]:
        self._text += text
        found: list[Piece] = []
        while self._step(found):
            pass
        return joined(found)

    def finish(self) -> list[Piece]:
        found: list[Piece] = []
        if self._scanner is not None and not self._announced:
            found.append(Piece("content", self._before + self._scanner.seen))
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
        ahead = self._text.lstrip()
        if self._only_calls and ahead.startswith("{"):
            self._begin(
                self._text[: len(self._text) - len(ahead)], CallScanner(self.names, needs_arguments=True), ahead
            )
            return True
        before, mark, after = self._text.partition(OPEN)
        if mark:
            shown = before.rstrip()
            self._show(shown, found)
            self._begin(before[len(shown) :] + OPEN, CallScanner(), after)
            return True
        sure = len(self._text) - overlap(self._text, OPEN)
        sure = len(self._text[:sure].rstrip())
        self._show(self._text[:sure], found)
        self._text = self._text[sure:]
        return False

    def _begin(self, before: str, scanner: CallScanner, text: str) -> None:
        """An object begins."""
        self._before, self._scanner, self._text, self._announced = before, scanner, text, False

    def _show(self, text: str, found: list[Piece]) -> None:
        found.append(Piece("content", text))
        self._only_calls = self._only_calls and not text

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
            self._show(self._before + scanner.seen, found)
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
