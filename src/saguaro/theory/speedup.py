"""How fast SSD is against autoregressive and plain speculative decoding: Theorem 7 and its corollaries.

Times are in units of one verification: `primary` is T_p, `fallback` is T_b, `draft` is T_SD. `tokens_hit` and
`tokens_miss` are E_hit and E_miss. The paper assumes T_p < 1 unless it says otherwise; here max(1, T_p) stands
everywhere. Must not know: torch, engines. Tests: tests/theory/test_speedup.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from saguaro.errors import ConfigError


class Bound(NamedTuple):
    """The best depth and what it gives, in tokens per second (or per unit of the times given)."""

    depth: int
    rate: float


def sd_speedup(tokens: float, *, draft: float) -> float:
    """Plain speculative decoding against AR: E_SD / (1 + T_SD)."""
    return tokens / (1 + draft)


def ssd_speedup(
    hit_rate: float, *, tokens_hit: float, tokens_miss: float, primary: float, fallback: float, batch: int = 1
) -> float:
    """SSD against AR: Theorem 7 for one sequence, Corollary 16 for a batch that waits for its slowest row.

    Rows hit independently with the same rate, so all of them hit with probability hit_rate ** batch.
    """
    tokens = hit_rate * tokens_hit + (1 - hit_rate) * tokens_miss
    all_hit = hit_rate**batch
    return tokens / (all_hit * max(1.0, primary) + (1 - all_hit) * (1 + fallback))


def large_batch_limit(hit_rate: float, *, tokens_hit: float, tokens_miss: float, fallback: float) -> float:
    """Corollary 16 for a batch without end: every round waits for a fallback (for hit_rate < 1)."""
    return (hit_rate * tokens_hit + (1 - hit_rate) * tokens_miss) / (1 + fallback)


def same_speculator_speedup(hit_rate: float, *, tokens: float, draft: float) -> float:
    """Corollary 8: SSD whose primary and fallback are both the speculator of SD. Never below `sd_speedup`."""
    return ssd_speedup(hit_rate, tokens_hit=tokens, tokens_miss=tokens, primary=draft, fallback=draft)


def bounds_over_sd(hit_rate: float, *, tokens_hit: float, tokens_sd: float, draft: float) -> tuple[float, float]:
    """Corollary 9: lower and upper bound of SSD / SD for T_p < 1, T_b = 0 and 1 <= E_miss <= E_hit."""
    ceiling = (1 + draft) * tokens_hit / tokens_sd
    return ceiling * hit_rate, ceiling


def hit_rate_by_round(rounds: int, *, after_hit: float, after_miss: float) -> list[float]:
    """The recursion in the proof of Theorem 7: p_hit(0) ... p_hit(rounds), starting from a primary proposal.

    `after_hit` is p_hit,p (the proposal under verification came from the primary draft), `after_miss` is p_hit,b.
    """
    rates = [after_hit]
    for _ in range(rounds):
        rates.append(rates[-1] * after_hit + (1 - rates[-1]) * after_miss)
    return rates


def long_run_hit_rate(*, after_hit: float, after_miss: float) -> float:
    """The limit of `hit_rate_by_round`: p_hit,b / (1 + p_hit,b - p_hit,p). Needs |p_hit,p - p_hit,b| < 1."""
    if abs(after_hit - after_miss) >= 1:
        raise ConfigError("the hit rate has no limit when one of the two rates is 0 and the other is 1.")
    return after_miss / (1 + after_miss - after_hit)


def break_even_hit_rate(
    *, tokens_sd: float, draft: float, tokens_hit: float, tokens_miss: float, primary: float, fallback: float
) -> float:
    """The hit rate from which SSD (Theorem 7) is at least as fast as SD; 0 if it always is, inf if it never is."""
    speed = sd_speedup(tokens_sd, draft=draft)
    at_none = tokens_miss - speed * (1 + fallback)
    at_all = tokens_hit - speed * max(1.0, primary)
    if at_none >= 0:
        return 0.0
    if at_all < 0:
        return math.inf
    return at_none / (at_none - at_all)


def bound(
    expected_by_depth: Sequence[float],
    *,
    verify_seconds: Sequence[float],
    seconds_until_depth: Sequence[float],
) -> Bound:
    """The best that SSD could do with measured step times, if every round hit and branches were free.

    max over d of E(d) / max(verify(d + 1 rows), time until depth d); ties go to the smaller d.

    Args:
        expected_by_depth: E(0), E(1), ... as `theory.acceptance.expected_by_depth` gives them.
        verify_seconds: entry d is the time of a verification of d + 1 rows.
        seconds_until_depth: entry d is the time from the start of a round until branches are d tokens deep; entry 0
            is 0. Depth d takes one extend (which ranks the outcomes) and d branch steps.
    """
    depths = range(min(len(expected_by_depth), len(verify_seconds), len(seconds_until_depth)))
    if not depths:
        raise ConfigError("a bound needs the times of at least one depth; give E(0), verify(1 row) and 0 s.")
    rates = [expected_by_depth[d] / max(verify_seconds[d], seconds_until_depth[d]) for d in depths]
    best = max(depths, key=lambda d: (rates[d], -d))
    return Bound(depth=best, rate=rates[best])
