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
from saguaro.theory.evidence import ASSUMED_ACCEPTANCE, ASSUMED_HIT_RATE
from saguaro.theory.rates import LIKELY_ROWS, MAX_PLANNED_LOOKAHEAD, StepTimes, planned
from saguaro.theory.step_times import time_for

PRIOR = [ASSUMED_ACCEPTANCE] * MAX_PLANNED_LOOKAHEAD
PLANNED_BUDGETS = (5, 6, 7, 8)
NEARLY_FREE = 1.15
DEEPER = 0.02
"""The waiting rule decides how deep each proposal is, and K only bounds it: the largest K is taken that promises so
much less than the best at most. (With the Qwen pair K = 6 to 8 give 3-5 % more than the 5 that promised most.)
"""
LARGE_ROWS, FEW_REPEATS = 9, 2
"""Passes of more rows take long and vary little: they are measured so many times only."""


def measure_rows(
    run: Callable[[Span], object],
    pool: PagePool,
    rows: Sequence[int],
    *,
    context: int,
    repeats: int,
    seconds: float,
    mean: bool = False,
) -> dict[int, float]:
    """Seconds of a pass that extends one row of `context` tokens by each count in `rows`: the median, which a few
    passes give well, or the mean. Passes that something else has held up make the mean some percent longer, and a text
    too: what a speed is predicted from are means.

    Takes about `seconds`, or as long as `repeats` passes of each count take if that is less; the first pass of each
    small count does not count, and each is measured at least once. A pool with less room is measured with what it has.
    """
    room = pool.available * pool.page_size
    rows = [count for count in rows if count <= room] or [1]
    context = min(context, room - max(rows))
    table = PageTable(pool)
    table.ensure(context + max(rows))
    times: dict[int, list[float]] = {count: [] for count in rows}
    started = time.perf_counter()
    try:
        for repeat in range(repeats + 1):
            if repeat > 1 and time.perf_counter() - started > seconds:
                break
            for count in rows:
                if count > LARGE_ROWS and not 0 < repeat <= FEW_REPEATS:
                    continue
                slots = table.slots(context, context + count)
                began = time.perf_counter()
                run(Span([1] * count, context, table.pages, slots, wanted=count))
                if repeat:
                    times[count].append(time.perf_counter() - began)
    finally:
        table.release()
    typical = statistics.fmean if mean else statistics.median
    return {count: typical(each) for count, each in times.items()}


@dataclass(frozen=True, slots=True)
class PlannedSpeculation:
    """Lookahead, budget, and the tokens a second that they promise."""

    lookahead: int
    budget: int
    tokens_per_second: float


def plan_sd(verify: Mapping[int, float], step: Mapping[int, float]) -> PlannedSpeculation:
    """The lookahead with the most tokens a second when drafting and verifying take turns."""
    best = planned("sd", StepTimes.of(verify, step), PRIOR, ASSUMED_HIT_RATE, slack=DEEPER)
    return PlannedSpeculation(best.lookahead, 0, best.rate)


def plan_ssd(verify: Mapping[int, float], step: Mapping[int, float]) -> PlannedSpeculation:
    """The (K, B) with the most tokens a second when the draft works while the target verifies (Theorem 7).

    A round of the draft is an extend and K steps of the likeliest branches; the others share what rows cost little
    (`algorithm/odds.py`). The budget is one branch a position, and more where rows are nearly free.
    """
    best = planned("ssd", StepTimes.of(verify, step), PRIOR, ASSUMED_HIT_RATE, slack=DEEPER)
    few = time_for(step, LIKELY_ROWS)
    free = [rows for rows in PLANNED_BUDGETS if time_for(step, rows) <= NEARLY_FREE * few]
    return PlannedSpeculation(best.lookahead, max(PLANNED_BUDGETS[0], best.lookahead, *free), best.rate)
