"""Reports with known outcomes, and what their counters must be."""

import pytest

from saguaro.engine.counting import RoundCounter
from saguaro.engine.misses import Lookup
from saguaro.engine.sequence import RoundReport
from saguaro.request import MISS_REASONS, RequestMetrics


def prefill(time: float = 1.0) -> RoundReport:
    return RoundReport([1], 0, 0, "prefill", 0, 0.0, 0.2, 0.0, time, cached_tokens=2)


def round_(time: float, source: str, proposed: int, accepted: int, lookup: Lookup, **more: object) -> RoundReport:
    tokens = list(range(accepted + 1))
    waits = (0.01, 0.02, 0.03)
    return RoundReport(
        tokens,
        proposed,
        accepted,
        source,
        proposed,
        0.06,
        0.1,
        0.01,
        time,
        looked=True,
        lookup=lookup,
        waits=waits,
        **more,
    )  # type: ignore[arg-type]


ROUNDS = [
    round_(2.0, "hit", 3, 3, Lookup(0, 9, None, 4)),
    round_(3.0, "hit", 2, 1, Lookup(3, 9, None, 4)),
    round_(4.0, "neural", 3, 0, Lookup(1, 9, "token_not_covered", 4)),
    round_(5.0, "none", 0, 0, Lookup(0, 9, "k_not_covered", 2)),
    round_(6.0, "hit", 4, 4, Lookup(0, 9, None, 6)),
    round_(8.0, "none", 0, 0, Lookup(), preemptions=1),
]


def counted(*, looks_up: bool = True, keeps_rounds: bool = True) -> RequestMetrics:
    metrics = RequestMetrics()
    counter = RoundCounter(metrics, prompt_tokens=5, looks_up=looks_up, keeps_rounds=keeps_rounds)
    for report in [prefill(), *ROUNDS]:
        counter.add(report, len(report.tokens))
    return metrics


def test_hits_and_misses_by_what_they_were_for() -> None:
    m = counted()
    assert (m.rounds, m.hits, m.misses) == (6, 3, 3)
    assert {reason: count for reason, count in m.miss_reasons.items() if count} == {
        "token_not_covered": 1, "k_not_covered": 1, "no_draft": 1,
    }  # fmt: skip
    assert tuple(m.miss_reasons) == MISS_REASONS
    assert m.rounds_by_accepted == [3, 1, 0, 1]
    assert m.hits_by_accepted == [2, 0, 0, 1]
    assert m.hit_rate_by_accepted == [2 / 3, 0.0, None, 1.0]
    assert (m.branches, m.budget_used) == (20, 20 / 6)


def test_hits_after_hits_and_after_misses() -> None:
    m = counted()
    assert (m.rounds_after_hit, m.hits_after_hit) == (3, 1)
    assert (m.rounds_after_miss, m.hits_after_miss) == (2, 1)
    assert (m.hit_rate_after_hit, m.hit_rate_after_miss) == (1 / 3, 0.5)


def test_acceptance_of_hits_and_of_misses() -> None:
    m = counted()
    assert (m.hit_accepted_per_position, m.hit_verified_per_position) == ([3, 2, 2, 1], [3, 3, 2, 1])
    assert (m.miss_accepted_per_position, m.miss_verified_per_position) == ([], [1])
    assert m.acceptance_of_hits == [1.0, 2 / 3, 1.0, 1.0]
    assert m.acceptance_of_misses == [0.0]
    assert (m.accepted_per_position, m.verified_per_position) == ([3, 2, 2, 1], [4, 3, 2, 1])
    assert (m.drafted, m.verified, m.accepted, m.hit_depth_sum) == (12, 10, 8, 9)


def test_times() -> None:
    m = counted()
    assert m.decode_seconds == pytest.approx(7.0)
    assert m.round_seconds == pytest.approx([1.0, 1.0, 1.0, 1.0, 1.0, 2.0])
    assert m.target_wait_seconds == pytest.approx(m.wait_depth_seconds + m.wait_pending_seconds + m.handover_seconds)
    assert m.wait_pending_seconds == pytest.approx(0.12)
    assert (m.prefill_tokens, m.cached_tokens, m.preemptions) == (3, 2, 1)


def test_where_nothing_is_looked_up_there_are_no_hits() -> None:
    m = counted(looks_up=False)
    assert m.hit_rate is m.budget_used is m.hit_rate_after_hit is None
    assert m.rounds_by_accepted == m.hit_verified_per_position == []
    assert m.verified == 10


def test_what_a_stop_string_cut_off_counts_nowhere() -> None:
    metrics = RequestMetrics()
    counter = RoundCounter(metrics, prompt_tokens=5, looks_up=True)
    counter.add(prefill(), 1)
    counter.add(round_(2.0, "hit", 3, 3, Lookup(0, 9, None, 4)), 2)
    assert (metrics.accepted, metrics.accepted_per_position, metrics.hit_accepted_per_position) == (1, [1], [1])


def test_a_shared_record_keeps_no_single_rounds() -> None:
    m = counted(keeps_rounds=False)
    assert m.round_seconds == m.round_tokens == []
    assert m.rounds == 6


def test_plain_values_have_every_counter_and_rate() -> None:
    plain = counted().to_dict()
    assert plain["hit_rate"] == 0.5
    assert plain["rounds_by_accepted"] == [3, 1, 0, 1]
    assert "round_seconds" not in plain
