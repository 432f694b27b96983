"""One branch point a round, the whole budget there: the rule of SpecBranch as a policy (Section 2.2).

The branch point is where the proposal will most likely be cut, by the draft's own odds for its tokens of this round.
(SpecBranch predicts the point with a trained head; the odds stand for it here.) Must not know: engines.
Tests: tests/conformance/test_fan_out.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.algorithm.odds import Guesses, likely_outcomes
from saguaro.algorithm.terms import Outcome
from saguaro.theory.acceptance import number_accepted
from saguaro.theory.evidence import Evidence


class SingleBranch(FanOutPolicy):
    """F_k = B at the likeliest k alone."""

    chooses: ClassVar[bool] = True

    def counts(self, lookahead: int, budget: int, evidence: Evidence, *, after_hit: bool) -> tuple[int, ...]:
        """See `FanOutPolicy.counts`; the branch point by acceptance alone."""
        return _all_at(_likeliest(evidence.rates(lookahead)), lookahead, budget)

    def choose(
        self, guesses: Sequence[Guesses], sent: Sequence[int], budget: int, counts: Sequence[int]
    ) -> list[tuple[float, Outcome]]:
        """See `FanOutPolicy.choose`; nothing until the odds of all sent tokens are known."""
        if len(guesses) < len(sent):
            return []
        rates = [min(1.0, each.of(token)) for each, token in zip(guesses, sent, strict=False)]
        own = _all_at(_likeliest(rates), len(sent), budget)
        return likely_outcomes(guesses, sent, own[: len(guesses)])


def _likeliest(rates: Sequence[float]) -> int:
    law = number_accepted(rates)
    return max(range(len(law)), key=lambda k: (law[k], -k))


def _all_at(k: int, lookahead: int, budget: int) -> tuple[int, ...]:
    return tuple(budget if place == k else 0 for place in range(lookahead + 1))
