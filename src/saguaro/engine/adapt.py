"""Settings from measured times: how long a pass of so many rows takes, and the (K, B) that this favours (DESIGN D8,
D9).

The plan is a start, not a law: the waiting rule decides the depth of every round by running estimates. Must not know:
channels, requests. Tests: tests/engine/test_adapt.py.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from saguaro.execution.batch import Span
from saguaro.paging import PagePool, PageTable
from saguaro.theory.acceptance import expected_tokens, number_accepted
from saguaro.theory.fan_out import PowerLaw, allocate, expected_hit_rate, marginal_gains

PRIOR_ACCEPTANCE = 0.8
MISSES = PowerLaw(c=0.33, r=0.5)
"""Miss rate c F^-r fitted to the paper's Figure 3 at temperature 0 (landscape, section 1.2)."""
MAX_PLANNED_LOOKAHEAD = 8
PLANNED_BUDGETS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
WORTHWHILE = 1.02
"""More branches disturb the target in ways that no step time shows: take them only for a real gain."""


def measure_rows(
    run: Callable[[Span], object], pool: PagePool, rows: Sequence[int], *, context: int, repeats: int, seconds: float
) -> dict[int, float]:
    """Median seconds of a pass that extends one row of `context` tokens by each count in `rows`.

    Takes about `seconds`, or as long as `repeats` passes of each count take if that is less; the first pass of each
    count does not count, and each is measured at least once.
    """
    table = PageTable(pool)
    table.ensure(context + max(rows))
    times: dict[int, list[float]] = {count: [] for count in rows}
    started = time.perf_counter()
    try:
        for repeat in range(repeats + 1):
            if repeat > 1 and time.perf_counter() - started > seconds:
                break
            for count in rows:
                slots = table.slots(context, context + count)
                began = time.perf_counter()
                run(Span([1] * count, context, table.pages, slots, wanted=count))
                if repeat:
                    times[count].append(time.perf_counter() - began)
    finally:
        table.release()
    return {count: statistics.median(each) for count, each in times.items()}


@dataclass(frozen=True, slots=True)
class PlannedSpeculation:
    """Lookahead, budget, and the tokens a second that they promise."""

    lookahead: int
    budget: int
    tokens_per_second: float


def time_for(times: Mapping[int, float], rows: int) -> float:
    """Seconds for `rows` rows: measured, interpolated between, or extended from the last two counts."""
    known = sorted(times)
    if rows in times:
        return times[rows]
    below = max((k for k in known if k < rows), default=known[0])
    above = min((k for k in known if k > rows), default=None)
    if above is None:
        if len(known) < 2:
            return times[below] * rows / below
        previous = known[-2]
        slope = (times[below] - times[previous]) / (below - previous)
        return times[below] + max(0.0, slope) * (rows - below)
    share = (rows - below) / (above - below) if above != below else 0.0
    return times[below] + share * (times[above] - times[below])


def plan_sd(verify: Mapping[int, float], step: Mapping[int, float]) -> PlannedSpeculation:
    """The lookahead with the most tokens a second when drafting and verifying take turns."""
    best = PlannedSpeculation(1, 0, 0.0)
    for lookahead in range(1, MAX_PLANNED_LOOKAHEAD + 1):
        tokens = expected_tokens([PRIOR_ACCEPTANCE] * lookahead)
        rate = tokens / (time_for(verify, lookahead + 1) + lookahead * time_for(step, 1))
        if rate > best.tokens_per_second:
            best = PlannedSpeculation(lookahead, 0, rate)
    return best


def plan_ssd(verify: Mapping[int, float], step: Mapping[int, float]) -> PlannedSpeculation:
    """The (K, B) with the most tokens a second when the draft works while the target verifies (Theorem 7)."""
    best = PlannedSpeculation(1, 1, 0.0)
    for lookahead in range(1, MAX_PLANNED_LOOKAHEAD + 1):
        expected = expected_tokens([PRIOR_ACCEPTANCE] * lookahead)
        for budget in PLANNED_BUDGETS:
            hit = _hit_rate(lookahead, budget)
            drafting = lookahead * time_for(step, budget) + time_for(step, 1)
            seconds = max(time_for(verify, lookahead + 1), drafting)
            missed = (1 - hit) * lookahead * time_for(step, 1)
            rate = expected / (seconds + missed)
            if rate > best.tokens_per_second * WORTHWHILE:
                best = PlannedSpeculation(lookahead, budget, rate)
    return best


def _hit_rate(lookahead: int, budget: int) -> float:
    """Expected hit rate of the geometric fan-out under the fitted power law."""
    weights = number_accepted([PRIOR_ACCEPTANCE] * lookahead)
    gains = [marginal_gains(MISSES.hit, budget)] * (lookahead + 1)
    counts = allocate(weights, gains, budget=budget)
    return expected_hit_rate(weights, [MISSES.hit] * (lookahead + 1), counts)
