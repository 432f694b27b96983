"""SSD with what the paper leaves out: hit curves of each kind of round, depth below K, and branches that take time.

Theorem 7 has one p_hit, one T_p and E_hit for whole proposals. Here p_hit follows from the fan-out and from the law of
the round under verification (a hit, or one of a fallback: Section A.1's p_hit,p and p_hit,b), a branch is as deep as
the time allows, and a step of the draft takes longer the more branches it extends, so that a larger budget may cost
more than it brings. Times are in any unit. Must not know: torch, engines. Tests: tests/theory/test_branches.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from saguaro.theory.acceptance import expected_by_depth, number_accepted
from saguaro.theory.chain import Kind, LongRun, long_run
from saguaro.theory.evidence import Evidence
from saguaro.theory.fan_out import allocate, marginal_gains

Seconds = Callable[[int], float]
"""Time of a pass by its number of rows."""


def hit_rate(known: Evidence, counts: Sequence[int]) -> float:
    """p_hit of a round that verifies len(counts) - 1 tokens: the sum over k of P(k) * hit_k(F_k).

    The last position has its own curve, because nothing is excluded there (the correction of Theorem 18's p^{K,all}).
    """
    weights = number_accepted(known.rates(len(counts) - 1))
    curves = [known.after_rejection] * (len(counts) - 1) + [known.after_all]
    return sum(
        weight * curve[min(count, len(curve) - 1)] for weight, curve, count in zip(weights, curves, counts, strict=True)
    )


def best_counts(known: Evidence, lookahead: int, budget: int) -> tuple[int, ...]:
    """Theorem 18 in whole numbers for a round that verifies `lookahead` tokens."""

    def gains(curve: Sequence[float]) -> tuple[float, ...]:
        return marginal_gains(lambda guesses: curve[min(guesses, len(curve) - 1)], budget)

    every = [gains(known.after_rejection)] * lookahead + [gains(known.after_all)]
    return allocate(number_accepted(known.rates(lookahead)), every, budget=budget)


@dataclass(frozen=True)
class Drafting:
    """What the draft's part of a round takes.

    Args:
        extend: the pass that gives the logits after the proposal, from which outcomes are predicted.
        step: a pass that makes all branches one token deeper, by the number of branches.
        late: what passes before a depth that is drawn can be verified: links and hand-over.
    """

    extend: float
    step: Seconds
    late: float = 0.0

    def until(self, depth: int, branches: int) -> float:
        """Time from the beginning of a round until all branches are `depth` tokens deep on the target's side."""
        return self.extend + depth * self.step(branches) + self.late if depth else 0.0


@dataclass(frozen=True)
class Answer:
    """A fallback: what it proposes, and what that takes.

    Args:
        known: the law of rounds that verify it.
        depth: tokens proposed; 0 proposes nothing.
        wait: T_b, the time from the end of a verification until the proposal is there.
        counts: the fan-out of such a round (F^b).
    """

    known: Evidence
    depth: int
    wait: float
    counts: tuple[int, ...]


def ssd_long_run(
    known: Evidence, counts: Sequence[int], answer: Answer, *, verify: Seconds, drafting: Drafting
) -> LongRun:
    """Theorem 7 with two kinds of rounds of their own law, depth and time.

    A round takes max(verification, time until the branches are deep enough) before a hit, and verification + T_b before
    a miss. With one verification time and one p_hit this is Theorem 7.

    Args:
        known: the law of rounds after a hit.
        counts: F^p; hits are len(counts) - 1 tokens deep.
        answer: the fallback.
        verify: time of a verification by its rows.
        drafting: of the branches.

    Returns:
        Shares of hits and misses, tokens and time of a round.
    """
    depth = len(counts) - 1
    kinds = []
    for own, own_depth, own_counts in ((known, depth, tuple(counts)), (answer.known, answer.depth, answer.counts)):
        hit = hit_rate(own, own_counts)
        verified = verify(own_depth + 1)
        # At depth 0 a branch has nothing to wait for.
        ready = max(verified, drafting.until(depth, max(1, sum(own_counts))))
        tokens = expected_by_depth(own.rates(own_depth))[-1]
        kinds.append(Kind(tokens, hit * ready + (1 - hit) * (verified + answer.wait), (hit, 1 - hit)))
    return long_run(kinds)


class Best(NamedTuple):
    """The best depth and budget of a search, with the long run that they give."""

    depth: int
    budget: int
    long_run: LongRun


def best_depth_and_budget(
    known: Evidence,
    answer_of: Callable[[int, int], Answer],
    *,
    verify: Seconds,
    drafting: Drafting,
    most: int,
    budgets: Sequence[int],
) -> Best:
    """The depth d <= K and the budget with the most tokens per time; ties to the smaller ones.

    Args:
        known: the law of rounds after a hit.
        answer_of: the fallback for a depth and a budget.
        verify: time of a verification by its rows.
        drafting: of the branches.
        most: K.
        budgets: those to look at.
    """
    tried = [
        Best(
            depth,
            budget,
            ssd_long_run(
                known, best_counts(known, depth, budget), answer_of(depth, budget), verify=verify, drafting=drafting
            ),
        )
        for depth in range(1, most + 1)
        for budget in budgets
    ]
    return max(tried, key=lambda each: each.long_run.rate)
