"""What AR, SD and SSD promise in tokens a second, from the times of passes, acceptance and hit rate.

`speedup` speaks in units of one verification; here times are seconds and depend on the number of rows, since a batch
pays for every row of a proposal. A promise is made for the best lookahead. Must not know: torch, engines, who measured.
Tests: tests/theory/test_rates.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from saguaro.theory.acceptance import expected_by_depth
from saguaro.theory.speedup import ssd_speedup
from saguaro.theory.step_times import time_for

MAX_PLANNED_LOOKAHEAD = 8
LIKELY_ROWS = 2
"""Rows of a draft pass beside a verification, for each request: the likeliest branches share what costs little."""


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a pass by its number of rows, of the target (`verify`) and of the draft (`step`).

    `alone`: the other model does nothing meanwhile; `beside`: both work, and may share a memory. The two are the same
    where they were not measured apart.
    """

    verify_alone: Mapping[int, float]
    verify_beside: Mapping[int, float]
    step_alone: Mapping[int, float]
    step_beside: Mapping[int, float]

    @classmethod
    def of(cls, verify: Mapping[int, float], step: Mapping[int, float]) -> StepTimes:
        """Times that do not depend on what the other model does."""
        return cls(verify, verify, step, step)


class Promise(NamedTuple):
    """Tokens a second of all rows together, at the lookahead that gives most."""

    lookahead: int
    rate: float


def ar_rate(times: StepTimes, *, rows: int = 1) -> float:
    """Tokens a second without a draft: one for each row and pass."""
    return rows / time_for(times.verify_alone, rows)


def sd_rate(times: StepTimes, acceptance: Sequence[float], *, lookahead: int, rows: int = 1) -> float:
    """Tokens a second when drafting and verifying take turns.

    Args:
        times: of the passes.
        acceptance: of each position given that all before it were accepted; at least `lookahead` of them.
        lookahead: K, at least 1.
        rows: requests that run at once.
    """
    tokens = expected_by_depth(acceptance[:lookahead])[-1]
    seconds = time_for(times.verify_alone, rows * (lookahead + 1)) + lookahead * time_for(times.step_alone, rows)
    return rows * tokens / seconds


def ssd_rate(times: StepTimes, acceptance: Sequence[float], hit_rate: float, *, lookahead: int, rows: int = 1) -> float:
    """Tokens a second when the draft works while the target verifies (Theorem 7; Corollary 16 for several rows).

    A round of the draft is an extend and K steps of the likeliest branches; a missed row is drafted while all wait.
    """
    tokens = expected_by_depth(acceptance[:lookahead])[-1]
    verify = time_for(times.verify_beside, rows * (lookahead + 1))
    return (rows / verify) * ssd_speedup(
        hit_rate,
        tokens_hit=tokens,
        tokens_miss=tokens,
        primary=(lookahead + 1) * time_for(times.step_beside, LIKELY_ROWS * rows) / verify,
        fallback=lookahead * time_for(times.step_alone, rows) / verify,
        batch=rows,
    )


def promise(
    mode: str,
    times: StepTimes,
    acceptance: Sequence[float],
    hit_rate: float,
    *,
    rows: int = 1,
    slack: float = 0.0,
) -> Promise:
    """The best that `mode` ("ar", "sd" or "ssd") promises, over lookaheads of 1 ... `MAX_PLANNED_LOOKAHEAD`.

    Args:
        mode: see above.
        times: of passes.
        acceptance: covers as many positions as lookaheads are looked at.
        hit_rate: of SSD.
        rows: requests that run at once.
        slack: the lookahead is the largest one that promises so much less than the best at most; without slack ties go
            to the smaller one. For rounds whose depth is decided one by one, where K only bounds it.
    """
    if mode == "ar":
        return Promise(0, ar_rate(times, rows=rows))
    rates = [
        sd_rate(times, acceptance, lookahead=lookahead, rows=rows)
        if mode == "sd"
        else ssd_rate(times, acceptance, hit_rate, lookahead=lookahead, rows=rows)
        for lookahead in range(1, min(MAX_PLANNED_LOOKAHEAD, len(acceptance)) + 1)
    ]
    best = max(rates)
    if not slack:
        return Promise(rates.index(best) + 1, best)
    return Promise(max(k for k, rate in enumerate(rates, start=1) if rate >= (1 - slack) * best), best)


def planned(mode: str, times: StepTimes, acceptance: Sequence[float], hit_rate: float, *, slack: float) -> Promise:
    """The lookahead to plan for, where rounds decide their depth themselves, and the best that `mode` promises.

    Theorem 7 has whole rounds of the draft, so that a round a little longer than a verification costs much. Here every
    token can be taken as soon as it is drawn, and SSD hides what SD pays for: it looks at least as far ahead as SD.
    """
    best = promise(mode, times, acceptance, hit_rate, slack=slack)
    if mode != "ssd":
        return best
    return Promise(max(best.lookahead, promise("sd", times, acceptance, hit_rate, slack=slack).lookahead), best.rate)
