"""What parsers of calls share: one object after the other is read, and what turns out to be no call is given back.

Must not know: marks of families. Tests: tests/conformance/test_parsers.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from saguaro.server.parsers.base import Parser, Piece
from saguaro.server.parsers.call_scanner import CallScanner


class CallParser(Parser):
    """A parser that reads objects with a `CallScanner`."""

    def __init__(self, names: Iterable[str] = (), *, begun: bool = False) -> None:
        super().__init__(names, begun=begun)
        self._scanner: CallScanner | None = None
        self._before = ""  # what was read over before the object: shown again if it is no call
        self._calls = 0
        self._announced = False

    def _begin(self, before: str, scanner: CallScanner, text: str) -> None:
        """An object begins with `text`, behind `before`."""
        self._before, self._scanner, self._text, self._announced = before, scanner, text, False

    def _scan(self, scanner: CallScanner, found: list[Piece]) -> bool:
        """A step within an object."""
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
            self._called()
        else:
            self._give_back(self._before + scanner.seen, found)
        return True

    @abstractmethod
    def _called(self) -> None:
        """A call has ended."""

    @abstractmethod
    def _give_back(self, text: str, found: list[Piece]) -> None:
        """This was no call."""
