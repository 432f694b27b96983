"""Calls as bare JSON at the beginning of the answer: Llama 3.x. `{"name": ..., "parameters": {...}}`, several of them
separated by `;`, perhaps behind `<|python_tag|>`.

JSON that names no known function is an answer and not a call. Tests: tests/conformance/test_parsers.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from saguaro.server.parsers.base import Parser, Piece, joined
from saguaro.server.parsers.call_scanner import CallScanner

TAG = "<|python_tag|>"


class Llama(Parser):
    """See the module."""

    mark = TAG

    def __init__(self, names: Iterable[str] = (), *, begun: bool = False) -> None:
        super().__init__(names, begun=begun)
        self._text = ""
        self._scanner: CallScanner | None = None
        self._before = ""  # what was read over before the object: shown again if it is no call
        self._calls = 0
        self._announced = False
        self._plain = False  # the rest is content

    def push(self, text: str) -> list[Piece]:
        self._text += text
        found: list[Piece] = []
        while self._step(found):
            pass
        return joined(found)

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
            self._before += self._text[: len(self._text) - len(ahead)]
            self._text = ahead
            self._scanner, self._announced = CallScanner(self.names, needs_arguments=True), False
            return True
        if not ahead or (not self._calls and not self._before and TAG.startswith(ahead)):
            return False  # more may come
        self._give_back(found, "")
        return True

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
            self._before = ""
        else:
            self._give_back(found, scanner.seen)
        return True

    def _give_back(self, found: list[Piece], seen: str) -> None:
        """It is no call: everything is content from here on."""
        found.append(Piece("content", self._before + seen))
        self._before, self._plain = "", True
