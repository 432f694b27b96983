"""What the draft holds of the target's hidden states for one row, until the tokens that need them have run.

Books only: no model, no channel. Must not know: rounds. Tests: tests/engine/test_taps.py.
"""

from __future__ import annotations

import torch

from saguaro.errors import ProtocolError
from saguaro.protocol.messages import Taps


class TapStore:
    """Taps by position.

    Attributes:
        end: positions below it have taps here, or will never get any.
        missing: positions that were asked for and had none.
    """

    def __init__(self, width: int) -> None:
        self.end = 0
        self.missing = 0
        self._width = width
        self._pieces: list[tuple[int, torch.Tensor]] = []

    def add(self, message: Taps) -> None:
        """Keep what has come.

        Raises:
            ProtocolError: taps of another width.
        """
        if message.width != self._width:
            raise ProtocolError(f"taps of {message.width} numbers arrived; the draft takes {self._width}.")
        values = torch.frombuffer(bytearray(message.values), dtype=torch.bfloat16)
        self._pieces.append((message.start, values.view(message.count, message.width)))
        self.settle(message.start + message.count)

    def settle(self, end: int) -> None:
        """All taps of positions below `end` that will ever come are here."""
        self.end = max(self.end, end)

    def rows(self, first: int, last: int) -> torch.Tensor:
        """Taps of positions first ... last - 1 as (N, W) bfloat16; zeros where there are none."""
        found_NW = torch.zeros(max(0, last - first), self._width, dtype=torch.bfloat16)
        known = 0
        for start, piece_NW in self._pieces:
            low, high = max(first, start), min(last, start + len(piece_NW))
            if low < high:
                found_NW[low - first : high - first] = piece_NW[low - start : high - start]
                known += high - low
        self.missing += len(found_NW) - known
        return found_NW

    def forget(self, below: int) -> None:
        """Taps of positions below are not asked for again."""
        self._pieces = [(start, piece) for start, piece in self._pieces if start + len(piece) > below]
