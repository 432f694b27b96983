"""Theorem 18 from measured hit curves, in whole numbers by marginal gain.

Acceptance is taken by position, rounds after a hit and after a miss have their own curves (`Evidence`), and so has
position K, where nothing is excluded. Until rounds have been seen, the curves are those that `geometric` assumes.
Must not know: engines. Tests: tests/algorithm/test_optimal.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.theory.acceptance import number_accepted
from saguaro.theory.evidence import Evidence
from saguaro.theory.fan_out import allocate, marginal_gains


class Optimal(FanOutPolicy):
    """The whole-number fan-out with the largest expected hit rate under the evidence."""

    learns: ClassVar[bool] = True

    def counts(self, lookahead: int, budget: int, evidence: Evidence, *, after_hit: bool) -> tuple[int, ...]:
        """See `FanOutPolicy.counts`."""
        return _allocated(lookahead, budget, evidence)


@lru_cache(maxsize=256)
def _allocated(lookahead: int, budget: int, evidence: Evidence) -> tuple[int, ...]:
    weights = number_accepted(evidence.rates(lookahead))
    gains = [gains_of(evidence.after_rejection, budget)] * lookahead + [gains_of(evidence.after_all, budget)]
    return allocate(weights, gains, budget=budget)


def gains_of(curve: Sequence[float], budget: int) -> tuple[float, ...]:
    """What each further guess adds under a measured hit curve; beyond its end nothing is gained."""
    return marginal_gains(lambda guesses: curve[min(guesses, len(curve) - 1)], budget)
