"""Which answer each row takes, for a whole batch at once: the choice behind `adaptive` (Section 4.3, DESIGN D9).

The criterion is that of `waiting`: with `rate` tokens a second in the long run, a round is worth the tokens that it is
expected to give less `rate` times the seconds that it takes. A batch waits for its slowest row, so a wait is paid once,
by all rows together: each wait that some row could ask for is tried, every row takes the best of what is there by then,
and the wait with the most value is kept. Theorem 17 is the special case of two answers that every missed row shares;
its b* is where this criterion is indifferent. Floats in, a choice out.
Must not know: clocks, caches, tokens. Tests: tests/algorithm/test_choosing_fallback.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

LEAST_TURNOVER = 0.2
"""1 - p_hit,p + p_hit,b is not taken for less: estimates of the two may be far off."""

Kind = tuple[str, int]
"""Where tokens come from, and a grade within: what one running estimate is kept for."""


class Way(NamedTuple):
    """One way for a row to go on: `depth` tokens from a source, there after `wait` seconds.

    `expected` are the tokens of the round that verifies them, `future` what they do for later rounds, in tokens.
    """

    source: str
    grade: int = 0
    depth: int = 0
    expected: float = 1.0
    wait: float = 0.0
    future: float = 0.0

    @property
    def kind(self) -> Kind:
        """Source and grade."""
        return self.source, self.grade


class Choice(NamedTuple):
    """A way for each row; its value without waiting, in tokens; the wait of all, in seconds; the value of all."""

    ways: tuple[Way, ...]
    values: tuple[float, ...]
    wait: float
    value: float


class Trial(NamedTuple):
    """Another choice, made to learn about `kind`, and what it is expected to cost in tokens."""

    choice: Choice
    kind: Kind
    cost: float


def deepening(
    source: str,
    expected_by_depth: Sequence[float],
    *,
    depths: Iterable[int],
    wait_seconds_by_depth: Sequence[float] | None = None,
    grade: int = 0,
    future: float = 0.0,
) -> list[Way]:
    """The ways of one source at several depths.

    Args:
        source: where the tokens come from.
        expected_by_depth: entry d is E(d); may be longer.
        depths: those on offer.
        wait_seconds_by_depth: entry d is the time until depth d is there; None where all are there now.
        grade: of the tokens, within the source.
        future: tokens that later rounds gain by it.
    """
    waits = wait_seconds_by_depth
    return [Way(source, grade, d, expected_by_depth[d], waits[d] if waits else 0.0, future) for d in depths]


def choose(rows: Sequence[Sequence[Way]], verify_seconds_by_rows: Sequence[float], rate: float) -> Choice:
    """The ways with the most value for the whole batch; ties go to the shorter wait, then to the way named first.

    Args:
        rows: the ways of each row; at least one of each needs no wait. A wait of inf is never chosen.
        verify_seconds_by_rows: entry d is the time of the verification when a row has d + 1 tokens in it.
        rate: tokens a second of the whole batch in the long run.
    """
    events = sorted(
        (way.wait, row, place) for row, ways in enumerate(rows) for place, way in enumerate(ways) if way.wait < math.inf
    )
    picked = [Way("none")] * len(rows)
    values = [-math.inf] * len(rows)
    best = Choice((), (), 0.0, -math.inf if rows else 0.0)
    for wait, group in groupby(events, key=lambda event: event[0]):
        for _, row, place in group:
            way = rows[row][place]
            value = way.expected + way.future - rate * verify_seconds_by_rows[way.depth]
            if value > values[row]:
                picked[row], values[row] = way, value
        total = sum(values) - rate * wait
        if total > best.value:
            best = Choice(tuple(picked), tuple(values), wait, total)
    return best


def try_another(
    rows: Sequence[Sequence[Way]],
    verify_seconds_by_rows: Sequence[float],
    rate: float,
    best: Choice,
    due: Iterable[Kind],
    credit: float,
) -> Trial | None:
    """The first kind in `due` that some row can take at a cost of at most `credit` tokens; that row takes it.

    The other arguments are those of `choose` and what it gave.
    """
    for kind in due:
        for row, ways in enumerate(rows):
            only = [way for way in ways if way.kind == kind]
            if only:
                other = choose([*rows[:row], only, *rows[row + 1 :]], verify_seconds_by_rows, rate)
                cost = best.value - other.value
                if cost <= credit:
                    return Trial(other, kind, cost)
                break
    return None


def worth_of_a_hit(*, value_hit: float, value_miss: float, after_hit: float, after_miss: float) -> float:
    """How many tokens more the future holds when the next outcome is a hit instead of a miss.

    With two states, hit and miss, this is the difference of their relative values: a round of value `value_hit` leads
    to a hit with probability `after_hit` (p_hit,p), one of value `value_miss` with `after_miss` (p_hit,b). Never below
    0: a hit can be treated like a miss.
    """
    return max(0.0, value_hit - value_miss) / max(LEAST_TURNOVER, 1 - after_hit + after_miss)
