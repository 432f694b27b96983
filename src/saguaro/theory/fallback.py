"""Which fallback answers a miss best at a given batch size: Theorem 17, and the comparison it idealises.

Theorem 17 gives both strategies the same hit rate. In truth a miss answered by poor tokens lowers the hit rate of the
next round (p_hit,b < p_hit,p), which favours the neural fallback at small batches; and a fast fallback may do better
than one token a miss. `fast_wins_from` therefore compares two strategies with their own measured numbers.
Times in units of one verification. Must not know: torch, engines. Tests: tests/theory/test_fallback.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from saguaro.errors import ConfigError
from saguaro.theory.speedup import long_run_hit_rate, ssd_speedup


@dataclass(frozen=True)
class Strategy:
    """One way to answer misses, as measured.

    Args:
        after_hit: p_hit,p, the rate of hits while the round under verification was a hit.
        after_miss: p_hit,b, the same after a round that this fallback answered.
        tokens_hit, tokens_miss: E_hit and E_miss.
        primary, fallback: T_p and T_b.
    """

    after_hit: float
    after_miss: float
    tokens_hit: float
    tokens_miss: float
    primary: float
    fallback: float

    @property
    def hit_rate(self) -> float:
        """p_hit in the long run (Theorem 7, second part)."""
        return long_run_hit_rate(after_hit=self.after_hit, after_miss=self.after_miss)

    def speedup(self, batch: int) -> float:
        """Corollary 16 with this strategy's own hit rate."""
        return ssd_speedup(
            self.hit_rate,
            tokens_hit=self.tokens_hit,
            tokens_miss=self.tokens_miss,
            primary=self.primary,
            fallback=self.fallback,
            batch=batch,
        )


def critical_batch(hit_rate: float, *, tokens_hit: float, tokens_miss: float, primary: float) -> float:
    """Theorem 17: b*, below which the slow fallback (T_b = T_p, E_miss = E_hit) is better than the fast one (T_b = 0).

    inf when the slow one is better at any batch, 0 when the fast one always is. As hit_rate approaches 1 it tends to
    (1 - E_miss / E_hit) / T_p. Assumes T_p <= 1, as the theorem does.
    """
    if not 0 < hit_rate < 1 or primary <= 0:
        raise ConfigError("Theorem 17 needs a hit rate strictly between 0 and 1 and a drafting time above 0.")
    mean = hit_rate * tokens_hit + (1 - hit_rate) * tokens_miss
    inside = 1 + 1 / primary - tokens_hit / (primary * mean)
    if inside <= 0:
        return math.inf
    return max(0.0, math.log(inside) / math.log(hit_rate))


def fast_wins_from(slow: Strategy, fast: Strategy, *, largest: int = 256) -> int | None:
    """The smallest batch from which `fast` is at least as quick as `slow`; None if it is not up to `largest`."""
    for batch in range(1, largest + 1):
        if fast.speedup(batch) >= slow.speedup(batch):
            return batch
    return None
