"""Tokens a second that the theory promises for AR, SD and SSD, from measured parts (Theorem 7, Corollary 16).

Speeds are of all requests together. A round of SSD is one extend of the draft and K steps of B rows for each request,
beside a verification of K + 1 rows each; a miss is answered by K steps of one row while the target waits. What the
engine does better (it runs the rows that are worth their time, and takes what is there) is not counted.
Must not know: engines, files. Tests: tests/calibrate/test_predict.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from saguaro.profile import Best
from saguaro.theory.speedup import sd_speedup, ssd_speedup
from saguaro.theory.step_times import time_for

Times = Mapping[str, Mapping[int, float]]
BATCHES = (1, 2, 4, 8, 16)


def ar(times: Times, batch: int) -> Best:
    """Plain decoding."""
    return Best("ar", batch, 0, 0, "none", "none", batch / time_for(times["verify_alone"], batch))


def sd(times: Times, batch: int, lookahead: int, tokens: float) -> Best:
    """Drafting and verifying in turns, on the target's device."""
    verify = time_for(times["verify_alone"], batch * (lookahead + 1))
    drafting = lookahead * time_for(times["step_alone"], batch)
    speed = batch / verify * sd_speedup(tokens, draft=drafting / verify)
    return Best("sd", batch, lookahead, 0, "none", "neural", speed)


def ssd(times: Times, batch: int, lookahead: int, budget: int, policy: str, *, tokens: float, hit_rate: float) -> Best:
    """Drafting beside verifying, misses answered by the draft."""
    verify = time_for(times["verify_together"], batch * (lookahead + 1))
    step = times["step_together"]
    primary = time_for(step, batch) + lookahead * time_for(step, batch * budget)
    fallback = lookahead * time_for(times["step_alone"], 1)
    gain = ssd_speedup(
        hit_rate,
        tokens_hit=tokens,
        tokens_miss=tokens,
        primary=primary / verify,
        fallback=fallback / verify,
        batch=batch,
    )
    return Best("ssd", batch, lookahead, budget, policy, "neural", batch / verify * gain)


def every_setting(
    times: Times,
    tokens: Sequence[float],
    hit_rate: Callable[[str, int, int], float],
    *,
    policies: Sequence[str],
    lookaheads: Sequence[int],
    budgets: Sequence[int],
    batches: Sequence[int] = BATCHES,
) -> list[Best]:
    """Every combination, fastest first within each batch.

    Args:
        times: as `Engine.measure_times` gives them.
        tokens: E(0), E(1), ... tokens a round of one request.
        hit_rate: of a policy, a lookahead and a budget.
        policies: what SSD is tried with.
        lookaheads: of SSD; SD is tried with every one of `tokens`.
        budgets: of SSD.
        batches: requests at once.
    """
    rates = {(p, k, b): hit_rate(p, k, b) for p in policies for k in lookaheads for b in budgets}
    found = []
    for batch in batches:
        own = [ar(times, batch)]
        own += [sd(times, batch, lookahead, tokens[lookahead]) for lookahead in range(1, len(tokens))]
        own += [
            ssd(times, batch, k, b, policy, tokens=tokens[k], hit_rate=rate) for (policy, k, b), rate in rates.items()
        ]
        found += sorted(own, key=lambda each: -each.tokens_per_second)
    return found


def best_of_each(settings: Sequence[Best]) -> list[Best]:
    """The fastest of each mode and batch, in the order of `settings`."""
    found: dict[tuple[str, int], Best] = {}
    for each in settings:
        found.setdefault((each.mode, each.batch), each)
    return list(found.values())
