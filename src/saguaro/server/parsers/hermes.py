"""Calls between `<tool_call>` and `</tool_call>`, one JSON object each: Qwen 2.5 and Qwen 3.

Text before, between and after calls is content; white space next to a call is dropped. A block without its end counts
as far as it goes, and one that is no call is content. Coder models often leave the marks out: an answer that begins
with the call of a known function is taken for one. Tests: tests/conformance/test_parsers.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from saguaro.server.parsers.base import Piece, joined, overlap
from saguaro.server.parsers.call_scanner import CallScanner
from saguaro.server.parsers.calls import CallParser

OPEN, CLOSE = "<tool_call>", "</tool_call>"


class Hermes(CallParser):
    """See the module."""

    mark = OPEN

    def __init__(self, names: Iterable[str] = (), *, begun: bool = False) -> None:
        super().__init__(names, begun=begun)
        self._closing = False
        self._only_calls = True  # no other text came so far

    def finish(self) -> list[Piece]:
        found: list[Piece] = []
        if self._scanner is not None and not self._announced:
            found.append(Piece("content", self._before + self._scanner.seen))
        elif self._scanner is None and not self._closing and (self._text.strip() or not self._calls):
            found.append(Piece("content", self._text))
        self._text, self._scanner, self._closing = "", None, False
        return joined(found)

    def _step(self, found: list[Piece]) -> bool:
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

    def _show(self, text: str, found: list[Piece]) -> None:
        found.append(Piece("content", text))
        self._only_calls = self._only_calls and not text

    def _called(self) -> None:
        self._closing = True

    def _give_back(self, text: str, found: list[Piece]) -> None:
        self._show(text, found)

    def _close(self) -> bool:
        """Drop the end of a block; another text behind the object is content."""
        ahead = self._text.lstrip()
        if ahead.startswith(CLOSE):
            self._text = ahead[len(CLOSE) :]
        elif CLOSE.startswith(ahead):
            return False  # more may come
        self._closing = False
        return True
