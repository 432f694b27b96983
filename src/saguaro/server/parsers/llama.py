"""Calls as bare JSON at the beginning of the answer: Llama 3.x. `{"name": ..., "parameters": {...}}`, several of them
separated by `;`, perhaps behind `<|python_tag|>`.

JSON that names no known function is an answer and not a call. Tests: tests/conformance/test_parsers.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from saguaro.server.parsers.base import Piece, joined
from saguaro.server.parsers.call_scanner import CallScanner
from saguaro.server.parsers.calls import CallParser

TAG = "<|python_tag|>"


class Llama(CallParser):
    """See the module."""

    mark = TAG

    def __init__(self, names: Iterable[str] = (), *, begun: bool = False) -> None:
        super().__init__(names, begun=begun)
        self._plain = False  # the rest is content

    def finish(self) -> list[Piece]:
        held = self._before + self._text
        if self._scanner is not None:
            held = "" if self._announced else self._before + self._scanner.seen
        self._text, self._before, self._scanner = "", "", None
        return joined([Piece("content", held)] if held.strip() or not self._calls else [])

    def _step(self, found: list[Piece]) -> bool:
        if self._plain:
            found.append(Piece("content", self._text))
            self._text = ""
            return False
        if self._scanner is not None:
            return self._scan(self._scanner, found)
        return self._look(found)

    def _look(self, found: list[Piece]) -> bool:
        """Whether an object begins here."""
        ahead = self._text.lstrip()
        if self._calls and not self._before:
            if ahead.startswith(";"):
                self._before, self._text = ";", ahead[1:]
                return True
            if ahead:
                self._plain = True
            return bool(ahead)
        if not self._calls and not self._before and ahead.startswith(TAG):
            self._before = self._text[: len(self._text) - len(ahead)] + TAG
            self._text = ahead[len(TAG) :]
            ahead = self._text.lstrip()
        if ahead.startswith("{"):
            before = self._before + self._text[: len(self._text) - len(ahead)]
            self._begin(before, CallScanner(self.names, needs_arguments=True), ahead)
            return True
        if not ahead or (not self._calls and not self._before and TAG.startswith(ahead)):
            return False  # more may come
        self._give_back(self._before, found)
        return True

    def _called(self) -> None:
        self._before = ""

    def _give_back(self, text: str, found: list[Piece]) -> None:
        """Everything is content from here on."""
        found.append(Piece("content", text))
        self._before, self._plain = "", True
