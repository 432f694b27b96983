"""Thoughts between `<think>` and `</think>` at the beginning of the answer: Qwen 3.

An answer without them (thinking switched off, or a turn that goes on) is content as it stands. Line ends next to the
marks are dropped. Tests: tests/conformance/test_parsers.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from saguaro.server.parsers.base import Parser, Piece, joined, overlap

OPEN, CLOSE = "<think>", "</think>"


class Qwen3(Parser):
    """See the module."""

    mark = OPEN
    close = CLOSE

    def __init__(self, names: Iterable[str] = (), *, begun: bool = False) -> None:
        super().__init__(names, begun=begun)
        self._state = "thinking" if begun else "start"
        self._fresh = True  # nothing of the present part was shown: line ends before it are dropped

    def finish(self) -> list[Piece]:
        text, self._text = self._text, ""
        if self._state == "thinking":
            return joined([Piece("reasoning", self._shown(text).rstrip("\n"))])
        return joined([Piece("content", text if self._state == "start" else self._shown(text))])

    def _step(self, found: list[Piece]) -> bool:
        if self._state == "start":
            return self._start()
        if self._state == "thinking":
            return self._think(found)
        found.append(Piece("content", self._shown(self._text)))
        self._text = ""
        return False

    def _start(self) -> bool:
        ahead = self._text.lstrip()
        if ahead.startswith(OPEN):
            self._state, self._text = "thinking", ahead[len(OPEN) :]
            return True
        if OPEN.startswith(ahead):
            return False
        self._state, self._fresh = "content", False
        return True

    def _think(self, found: list[Piece]) -> bool:
        before, mark, after = self._text.partition(CLOSE)
        if mark:
            found.append(Piece("reasoning", self._shown(before).rstrip("\n")))
            self._state, self._text, self._fresh = "content", after, True
            return True
        sure = len(before) - overlap(before, CLOSE)
        sure = len(before[:sure].rstrip("\n"))
        found.append(Piece("reasoning", self._shown(before[:sure])))
        self._text = before[sure:]
        return False

    def _shown(self, text: str) -> str:
        """`text` without line ends at the beginning of a part."""
        if self._fresh:
            text = text.lstrip("\n")
            self._fresh = not text
        return text
