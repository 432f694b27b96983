"""How many bonus tokens to guess after each number of accepted tokens: Theorems 12 and 18.

The *miss curve* of a position k says how likely the bonus token is missing from the F best guesses, given that
exactly k tokens were accepted. The paper's law is F^-r; the published points and our own follow c * F^-r with c near
1/2, and nothing is hit without a guess: miss(0) = 1. The position after all tokens were accepted has its own curve
(no sent token is excluded there, and the target agrees with the draft's first choice far more often).
Must not know: torch, engines. Tests: tests/theory/test_fan_out_theory.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from saguaro.errors import ConfigError


@dataclass(frozen=True)
class PowerLaw:
    """Miss probability c * F^-r for F >= 1 guesses, and 1 without a guess.

    c = 1 is the paper's own definition, under which the first guess is worth nothing.
    """

    c: float
    r: float

    def __post_init__(self) -> None:
        if not 0 <= self.c <= 1 or not self.r >= 0:
            raise ConfigError(f"a power law needs c in 0 ... 1 and r of 0 or more, not c={self.c}, r={self.r}.")

    def miss(self, guesses: int) -> float:
        """The probability that the outcome is not among the first `guesses`."""
        return 1.0 if guesses <= 0 else self.c * guesses**-self.r

    def hit(self, guesses: int) -> float:
        """1 - miss."""
        return 1.0 - self.miss(guesses)


def geometric_shape(acceptance: float, exponent: float, *, lookahead: int, budget: float) -> list[float]:
    """Theorem 12: the real numbers F_0 ... F_K that maximise the hit rate under the law F^-r.

    F_k = F_0 * a^(k / (1 + r)) for k < K, and F_K carries the further factor (1 - a)^(-1 / (1 + r)); F_0 makes them
    sum to the budget. For a = 1 the limit is taken: everything goes to F_K.
    """
    if not 0 <= acceptance <= 1 or exponent < 0 or lookahead < 0 or budget < 0:
        raise ConfigError("Theorem 12 needs an acceptance in 0 ... 1 and exponent, lookahead, budget of 0 or more.")
    if acceptance == 1:
        return [0.0] * lookahead + [float(budget)]
    ratio = acceptance ** (1 / (1 + exponent))
    last = ratio**lookahead * (1 - acceptance) ** (-1 / (1 + exponent))
    first = budget / (last + (1 - ratio**lookahead) / (1 - ratio))
    return [first * ratio**k for k in range(lookahead)] + [first * last]


def marginal_gains(hit: Callable[[int], float], budget: int) -> tuple[float, ...]:
    """What the 1st, 2nd, ... guess adds to the hit probability, made non-increasing.

    Where a curve is not concave (noise of a measurement, or the paper's c = 1) neighbouring gains are pooled, which
    is the smallest concave curve above it; then taking the largest gain first is optimal up to the last pool.
    """
    pools: list[list[float]] = []
    below = hit(0)
    for guesses in range(1, budget + 1):
        above = hit(guesses)
        pools.append([max(above - below, 0.0), 1])
        below = max(above, below)
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] < pools[-1][0] * pools[-2][1]:
            gain, count = pools.pop()
            pools[-1][0] += gain
            pools[-1][1] += count
    return tuple(gain / count for gain, count in pools for _ in range(int(count)))


def allocate(weights: Sequence[float], gains: Sequence[Sequence[float]], *, budget: int) -> tuple[int, ...]:
    """Theorem 18 in whole numbers: F_0 ... F_K by the largest marginal gain, ties to the smaller k.

    Args:
        weights: P(exactly k accepted), as `theory.acceptance.number_accepted` gives it.
        gains: for each k what each further guess adds, non-increasing (`marginal_gains`).
        budget: B, the most that the counts may sum to. Guesses that add nothing are not taken.
    """
    counts = [0] * len(weights)
    heap = [(-weights[k] * gains[k][0], k) for k in range(len(weights)) if gains[k]]
    heapq.heapify(heap)
    left = budget
    while left > 0 and heap and heap[0][0] < 0:
        _, k = heap[0]
        counts[k] += 1
        left -= 1
        if counts[k] < len(gains[k]):
            heapq.heapreplace(heap, (-weights[k] * gains[k][counts[k]], k))
        else:
            heapq.heappop(heap)
    return tuple(counts)


def expected_hit_rate(weights: Sequence[float], hits: Sequence[Callable[[int], float]], counts: Sequence[int]) -> float:
    """p_hit of a fan-out: the sum over k of P(k accepted) * hit_k(F_k) (proof of Theorem 18)."""
    return sum(w * hit(f) for w, hit, f in zip(weights, hits, counts, strict=True))
