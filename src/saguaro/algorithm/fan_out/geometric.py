"""Theorem 12 in whole numbers: guesses fall off geometrically with k, and "all accepted" gets its own share.

DESIGN D8. Real-valued counts of the theorem are replaced by taking the largest marginal gain under the same
assumptions (capped geometric number of accepted tokens, power-law misses), with miss(0) = 1.
Must not know: engines, measurements (they arrive as arguments). Tests: tests/algorithm/test_geometric.py.
"""

from __future__ import annotations

from functools import lru_cache

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.theory.acceptance import number_accepted
from saguaro.theory.evidence import AFTER_ALL_ACCEPTED, AFTER_REJECTION, Evidence
from saguaro.theory.fan_out import PowerLaw, allocate, marginal_gains


class Geometric(FanOutPolicy):
    """The best whole-number fan-out for one acceptance rate and two miss curves.

    Args:
        after_rejection: miss curve of the positions k < K. The default has r = 1/2 and c = 1/2: the published curves
            and our own have c between .33 and .55 there.
        after_all: miss curve of position K, where nothing is excluded: the first guess is right in .88 of cases on
            the measured pair (DESIGN D1).
    """

    def __init__(
        self, *, after_rejection: PowerLaw = AFTER_REJECTION, after_all: PowerLaw = AFTER_ALL_ACCEPTED
    ) -> None:
        self._after_rejection = after_rejection
        self._after_all = after_all

    def counts(self, lookahead: int, budget: int, evidence: Evidence, *, after_hit: bool) -> tuple[int, ...]:
        """See `FanOutPolicy.counts`."""
        weights = number_accepted([evidence.rate] * lookahead)
        gains = [_gains(self._after_rejection, budget)] * lookahead + [_gains(self._after_all, budget)]
        return allocate(weights, gains, budget=budget)


@lru_cache(maxsize=64)
def _gains(law: PowerLaw, budget: int) -> tuple[float, ...]:
    return marginal_gains(law.hit, budget)
