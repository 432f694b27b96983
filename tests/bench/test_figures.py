"""The numbers of a run, from completions whose counters are known."""

import pytest

from saguaro.bench import figures
from saguaro.request import MISS_REASONS, RequestMetrics

COUNTERS = {
    "rounds": 4, "drafted": 12, "verified": 8, "accepted": 5, "accepted_per_position": [3, 2], "hits": 3, "misses": 1,
    "verified_per_position": [4, 4], "hit_depth_sum": 6, "target_wait_seconds": 0.02, "verify_seconds": 0.4,
    "time_to_first_token": 0.1, "decode_seconds": 0.5, "round_seconds": [0.1, 0.1, 0.1, 0.2],
    "round_tokens": [3, 3, 2, 1],
}  # fmt: skip


def test_fields_of_a_run(completion):
    run = figures.run_figures([completion(range(10), **COUNTERS)], {}, mode="ssd")
    assert run["tokens_per_second"] == pytest.approx(9 / 0.5)
    assert run["acceptance_length"] == pytest.approx(1 + 5 / 4)
    assert run["acceptance_rate"] == pytest.approx(5 / 8)
    assert run["accepted_share"] == pytest.approx(5 / 12)
    assert (run["hit_rate"], run["depth"]) == (0.75, 2.0)
    assert run["verify_ms"] == pytest.approx(100)
    assert run["target_wait_ms"] == pytest.approx(5)
    assert run["ttft_ms"] == pytest.approx(100)
    assert (run["output_tokens"], run["rounds"]) == (10, 4)


def test_the_speed_of_a_request_is_by_the_sum_of_row_times(completion):
    done = [completion(range(11), decode_seconds=1.0), completion(range(6), decode_seconds=0.5)]
    assert figures.run_figures(done, {}, mode="ar")["tokens_per_second"] == pytest.approx(15 / 1.5)


def test_hit_rate_is_null_without_a_cache(completion):
    counters = {**COUNTERS, "hits": 0, "misses": 0, "hit_depth_sum": 0}
    run = figures.run_figures([completion(range(10), **counters)], {}, mode="sd")
    assert (run["hit_rate"], run["depth"], run["bound"]) == (None, None, None)


def test_nothing_decoded(completion):
    run = figures.run_figures([completion([5], time_to_first_token=0.1)], {}, mode="ar")
    assert run["tokens_per_second"] == 0.0
    assert run["acceptance_length"] is None


def test_acceptance_by_position_adds_requests_up():
    one = RequestMetrics(accepted_per_position=[3, 1], verified_per_position=[4, 3])
    two = RequestMetrics(accepted_per_position=[1], verified_per_position=[4])
    assert figures.acceptance_by_position([one, two]) == [4 / 8, 1 / 3]
    assert figures.acceptance_by_position([RequestMetrics(verified_per_position=[0])]) == []


def test_bound_is_the_best_depth():
    """E = 1, 1.8, 2.44; rows cost nothing; a step takes .4 of a verification: depth 1 in one verification, 2 in 1.2."""
    metrics = [RequestMetrics(accepted_per_position=[8, 4], verified_per_position=[10, 5])]
    statistics = {"measured": {"verify_seconds": {1: 1.0, 3: 1.0}, "draft_step_seconds": {1: 0.4}}}
    expected = max(1.0, 1.8 / 1.0, 2.44 / 1.2)
    assert figures.bound_tokens_per_second(metrics, statistics) == pytest.approx(expected)


def test_running_estimates_replace_first_measurements():
    metrics = [RequestMetrics(accepted_per_position=[8], verified_per_position=[10])]
    measured = {"verify_seconds": {1: 1.0, 2: 1.0}, "draft_step_seconds": {1: 0.1}}
    slower = figures.bound_tokens_per_second(metrics, {"measured": measured, "verify_seconds": {2: 2.0}})
    assert slower == pytest.approx(1.0)
    assert figures.bound_tokens_per_second(metrics, {"measured": measured}) == pytest.approx(1.8)


def test_no_bound_without_times():
    metrics = [RequestMetrics(accepted_per_position=[8], verified_per_position=[10])]
    assert figures.bound_tokens_per_second(metrics, {"verify_seconds": {}, "draft_step_seconds": 0.1}) is None


def test_draft_round():
    statistics = {"plan": {"lookahead": 3, "budget": 4}, "measured": {"draft_step_seconds": {1: 0.02, 4: 0.03}}}
    assert figures.draft_round_seconds(statistics, mode="ssd") == pytest.approx(0.02 + 3 * 0.03)
    assert figures.draft_round_seconds(statistics, mode="sd") == pytest.approx(0.02 + 3 * 0.02)
    assert figures.draft_round_seconds({**statistics, "draft_round_seconds": 0.5}, mode="ssd") == 0.5
    assert figures.draft_round_seconds(statistics, mode="ar") is None


def test_waits_are_differences_a_round():
    before = {"waited": {"depth": 1.0, "pending": 0.5, "handover": 0.0, "rounds": 100.0}}
    after = {"waited": {"depth": 1.2, "pending": 0.5, "handover": 0.002, "rounds": 120.0}}
    assert figures.waits(before, after) == pytest.approx({"depth": 10.0, "pending": 0.0, "handover": 0.1})
    assert figures.waits(after, after) == {}


def test_resolved_values_win():
    options = {"lookahead": "auto", "dtype": "int8", "fallback": "neural"}
    assert figures.plan_figures({"plan": {"lookahead": 3, "budget": 5}}, options) == {
        "lookahead": 3, "budget": 5, "fan_out": None, "fallback": "neural", "verification": None, "dtype": "int8",
    }  # fmt: skip


def test_hits_and_misses_in_detail(completion):
    counters = {
        "hits": 3, "misses": 1, "branches": 10, "rounds_by_accepted": [2, 2], "hits_by_accepted": [1, 2],
        "miss_reasons": {**dict.fromkeys(MISS_REASONS, 0), "not_ready": 1}, "rounds_after_hit": 2, "hits_after_hit": 1,
        "hit_verified_per_position": [3, 1],
    }  # fmt: skip
    more = {**counters, "rounds_by_accepted": [4], "hits_by_accepted": [3]}
    run = figures.run_figures([completion([1, 2], **counters), completion([1, 2], **more)], {}, mode="ssd")
    assert (run["hits"], run["misses"], run["budget_used"]) == (6, 2, 2.5)
    assert (run["rounds_by_accepted"], run["hits_by_accepted"]) == ([6, 2], [4, 2])
    assert run["miss_reasons"] == {**dict.fromkeys(MISS_REASONS, 0), "not_ready": 2}
    assert (run["rounds_after_hit"], run["hits_after_hit"], run["rounds_after_miss"]) == (4, 2, 0)
    assert run["hit_verified_per_position"] == [6, 2]
    assert "miss_reasons" not in figures.run_figures([completion([1, 2], **COUNTERS)], {}, mode="sd")


def test_what_the_draft_did_is_a_difference():
    zero = dict.fromkeys(figures.ACTIVITY, 0)
    before = {"draft": {**zero, "steps": 5, "busy_seconds": 1.0}}
    after = {"draft": {**zero, "steps": 9, "busy_seconds": 1.5, "pages": 3}}
    assert figures.draft_activity(before, after) == {**zero, "steps": 4, "busy_seconds": 0.5}
    assert figures.draft_activity(before, {**after, "draft_restarts": 1}) is None
    assert figures.draft_activity({}, {"draft": None}) is None
