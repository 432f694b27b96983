"""How likely each outcome is by the draft's own scores, and how many rows of the next pass are worth their time.

The draft's scores say more than a fan-out by position can: where the draft is sure, only "all accepted" is worth
preparing, and where it wavers, the second guess is (DESIGN D8, `ranked`). The same numbers tell which branches to
extend first when a pass with fewer rows takes less time. Floats and lists only. Must not know: models, clocks.
Tests: tests/algorithm/test_odds.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from saguaro.algorithm import outcomes
from saguaro.algorithm.terms import Outcome

DOUBT = 0.02
"""Share of the odds that goes by rank alone: drafts are a little surer of themselves than they are right. On the Qwen
pair a plain softmax is the likeliest law at every temperature, and .08 costs a hit in a hundred rounds (docs/log.md).
"""
FEWEST_CANDIDATES, MOST_CANDIDATES = 4, 64
"""Candidates of a position that are listed at least (odds of the first mean little without the others), and at most."""
ASKED_FOR = 2.5
"""The target waits for tokens that are accepted more often than about one time in this many."""


class Guesses(NamedTuple):
    """The candidates for one position, best first, and the probability that the target's token is each of them, made
    from the draft's `scores` (logits over temperature, plus noise where it is shared).
    """

    tokens: list[int]
    odds: list[float]
    scores: Sequence[float] = ()

    def of(self, token: int) -> float:
        """The odds of a token; of one that is not listed, half of the last one's."""
        if token in self.tokens:
            return self.odds[self.tokens.index(token)]
        return self.odds[-1] / 2 if self.odds else 0.0


class Calibration(NamedTuple):
    """How a draft's scores become odds: a softmax of `sharpness` times the scores, of which `doubt` goes by rank."""

    sharpness: float = 1.0
    doubt: float = DOUBT


UNCALIBRATED = Calibration()


def candidates_listed(needed: int) -> int:
    """How many candidates of a position a draft lists of which `needed` may be taken."""
    return min(MOST_CANDIDATES, max(needed, FEWEST_CANDIDATES))


def softmax(scores: Sequence[float], sharpness: float = 1.0) -> list[float]:
    """Probabilities of the listed candidates; `scores` begin with the largest."""
    weights = [math.exp(sharpness * (score - scores[0])) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]


def guess_odds(scores: Sequence[float], calibration: Calibration = UNCALIBRATED) -> list[float]:
    """Probabilities of candidates from their scores, best first: a softmax, mixed with 1/2, 1/4, ... by rank."""
    sharpness, doubt = calibration
    return [(1 - doubt) * share + doubt * 0.5 ** (rank + 1) for rank, share in enumerate(softmax(scores, sharpness))]


def _reach(guesses: Sequence[Guesses], sent: Sequence[int], accepted: int) -> float:
    """The probability that at least `accepted` sent tokens are accepted."""
    return math.prod(each.of(token) for each, token in zip(guesses[:accepted], sent, strict=False))


def likely_outcomes(
    guesses: Sequence[Guesses], sent: Sequence[int], counts: Sequence[int]
) -> list[tuple[float, Outcome]]:
    """The outcomes that a fan-out prepares (`outcomes.predict`) with their probabilities, likeliest first.

    Args:
        guesses: for each position k = 0 ... d that is known, given the first k sent tokens.
        sent: the d tokens under verification.
        counts: F_0 ... of as many positions as there are guesses.
    """
    keys = outcomes.predict([each.tokens for each in guesses], sent, counts)
    weighed = [(_reach(guesses, sent, key.accepted) * guesses[key.accepted].of(key.bonus), key) for key in keys]
    return sorted(weighed, key=lambda pair: (-pair[0], pair[1]))


def best_outcomes(guesses: Sequence[Guesses], sent: Sequence[int], budget: int) -> list[tuple[float, Outcome]]:
    """The `budget` likeliest outcomes of all, likeliest first.

    While the position after the last sent token is not known yet, places are kept for it as if its guesses had the
    odds of an average position, so that less likely branches are not begun in vain.
    """
    every = likely_outcomes(guesses, sent, [budget] * len(guesses))
    places = budget
    if len(guesses) <= len(sent):
        reached = _reach(guesses, sent, len(guesses))
        to_come = [reached * share for share in guess_odds([0.0, -2.0, -3.0])]
        places -= sum(1 for odds in to_come if sum(1 for other, _ in every if other > odds) < budget)
    return every[: max(0, places)]


def rows_worth_running(
    worths: Sequence[float], seconds: Callable[[int], float], *, fixed_rows: int = 0, fixed_worth: float = 0.0
) -> int:
    """How many of the offered rows to run: the count with the most worth a second.

    Args:
        worths: the probability that the token which a row draws will be asked for and accepted; falling.
        seconds: time of a pass by its rows.
        fixed_rows: rows that run anyway.
        fixed_worth: what those are worth together.

    Returns:
        A count of 0 ... len(worths); at least 1 when nothing is fixed.
    """
    best, best_rate, total = 0, 0.0, fixed_worth
    if fixed_rows:
        best_rate = fixed_worth / seconds(fixed_rows)
    for count, worth in enumerate(worths, start=1):
        total += worth
        rate = total / seconds(fixed_rows + count)
        if rate >= best_rate:
            best, best_rate = count, rate
    return best


def branches_worth_running(
    branches: Sequence[tuple[float, float]],
    beside: Callable[[int], float],
    alone: Callable[[int], float],
    *,
    fixed_rows: int = 0,
    fixed_worth: float = 0.0,
) -> int:
    """How many of the offered branches the next pass extends, the most worthy first.

    Where the two devices share a memory, a pass beside the target takes longer than one while the target waits, and
    slows the target by as much. A pass for branches alone is run when the waiting that it is likely to save (a pass of
    one row for each token that will be asked for) is more than that.

    Args:
        branches: odds of the outcome and worth of the next token of each, by falling worth.
        beside: seconds of a pass by its rows while the target works.
        alone: the same while it waits.
        fixed_rows: rows that run anyway.
        fixed_worth: what those are worth together.
    """
    worths = [worth for _, worth in branches]
    count = rows_worth_running(worths, beside, fixed_rows=fixed_rows, fixed_worth=fixed_worth)
    if fixed_rows:
        return count
    needed = sum(min(odds, ASKED_FOR * worth) for odds, worth in branches[:count])
    return count if needed * alone(1) > beside(count) - alone(count) else 0
