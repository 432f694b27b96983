"""Counts given by hand: the list [F_0, ..., F_K]. Must not know: laws. Tests: tests/conformance/test_fan_out.py."""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.errors import ConfigError
from saguaro.theory.evidence import Evidence


class Listed(FanOutPolicy):
    """F_k as listed, and a second list for rounds after a fallback if one is given.

    A row that verifies fewer tokens than the list was made for uses its first entries for k < d and the last entry,
    "all accepted", for k = d; a longer one repeats the entry before the last. Counts over the budget are taken back
    one at a time from the largest, ties from the larger k.
    """

    def __init__(self, counts: Sequence[int] = (), *, after_miss: Sequence[int] = ()) -> None:
        if not counts:
            raise ConfigError("fan_out 'listed' needs its list; give fan_out=[F_0, ..., F_K].")
        self._after_hit = tuple(counts)
        self._after_miss = tuple(after_miss) if after_miss else self._after_hit
        if any(count < 0 for count in (*self._after_hit, *self._after_miss)):
            raise ConfigError("fan_out as a list holds whole numbers F_0 ... F_K, each 0 or more.")

    def counts(self, lookahead: int, budget: int, evidence: Evidence, *, after_hit: bool) -> tuple[int, ...]:
        """See `FanOutPolicy.counts`."""
        listed = self._after_hit if after_hit else self._after_miss
        before, last = listed[:-1] or listed, listed[-1]
        counts = [before[min(k, len(before) - 1)] for k in range(lookahead)] + [last]
        over = sum(counts) - budget
        while over > 0:
            largest = max(range(len(counts)), key=lambda k: (counts[k], k))
            counts[largest] -= 1
            over -= 1
        return tuple(counts)
