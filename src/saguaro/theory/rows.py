"""Several rows at once: Corollary 16 when only the missed rows are drafted anew.

The corollary lets a batch with any miss wait 1 + T_b, whatever missed. Two things are missing there: how many rows miss
decides how much must be drafted (T_b depends on it, and is 0 without misses), and rows that hit still wait for branches
that are late (T_p > 1). Rows are independent, so the number of misses is binomial. Times are in units of one
verification of the batch. Must not know: torch, engines. Tests: tests/theory/test_rows.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from saguaro.errors import ConfigError


def misses_law(hit_rate: float, batch: int) -> list[float]:
    """Entry m is the probability that m of `batch` rows miss."""
    if not 0 <= hit_rate <= 1 or batch < 1:
        raise ConfigError(f"a batch of {batch} rows with a hit rate of {hit_rate} makes no sense.")
    return [math.comb(batch, m) * (1 - hit_rate) ** m * hit_rate ** (batch - m) for m in range(batch + 1)]


def time_of_round(
    hit_rate: float, *, batch: int, primary: float, fallback: Callable[[int], float], verify: float = 1.0
) -> float:
    """Expected time of a round of the batch.

    With m misses it is verification + T_b(m), or the time until branches are there if some row hit and that is later.

    Args:
        hit_rate: p_hit of each row.
        batch: b.
        primary: T_p.
        fallback: T_b by the number of missed rows, from 1 on.
        verify: of the batch.
    """
    law = misses_law(hit_rate, batch)
    total = 0.0
    for missed, share in enumerate(law):
        ready = max(verify, primary) if missed < batch else verify
        total += share * max(ready, verify + (fallback(missed) if missed else 0.0))
    return total


def batch_speedup(
    hit_rate: float,
    *,
    batch: int,
    tokens_hit: float,
    tokens_miss: float,
    primary: float,
    fallback: Callable[[int], float],
) -> float:
    """Corollary 16 with T_b by the number of missed rows: tokens of a row per verification of the batch.

    A constant T_b and T_p <= 1 give the corollary itself.
    """
    tokens = hit_rate * tokens_hit + (1 - hit_rate) * tokens_miss
    return tokens / time_of_round(hit_rate, batch=batch, primary=primary, fallback=fallback)
