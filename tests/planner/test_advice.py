import math
from dataclasses import replace

import pytest

from saguaro.planner.advice import break_even, error_bars, improvements, plan, verdict
from saguaro.planner.predict import predict
from saguaro.planner.search import best, compare


def test_error_bars_hold_the_prediction(question):
    found = best(question, "ssd", 4, 1, 5)
    bars = error_bars(question, found)
    assert bars.low < found.tokens_per_second < bars.high
    slower = predict(replace(question, verify_factor=1.1), found.candidate).tokens_per_second
    assert bars.low <= slower


def test_break_even_is_where_ssd_meets_sd(question):
    """Theorem 7 at that hit rate gives the speed of SD."""
    compared = compare(question)
    even = break_even(question, compared)
    ssd = compared.of("ssd")
    own = predict(question, replace(ssd.candidate, fallback="none"))
    hit = even["none"]
    tokens = hit * own.tokens_hit + (1 - hit) * own.tokens_miss
    time = hit * max(1, own.t_p) + (1 - hit) * (1 + own.t_b)
    assert tokens / time / own.verify == pytest.approx(compared.of("sd", equal=True).tokens_per_second)
    assert even["neural"] < even["none"] < own.hit_rate


def test_a_draft_that_is_far_away_never_breaks_even(question):
    slow = replace(question, link=0.1)
    assert break_even(slow, compare(slow))["none"] == math.inf
    assert plan(slow)["break_even_hit_rate"]["none"] is None


def test_what_would_help_most(question):
    found = improvements(question, best(question, "ssd", 4, 1, 5))
    assert [gain for _, gain in found] == sorted((gain for _, gain in found), reverse=True)
    assert found[0][0].startswith("verification")  # the draft is hidden here
    late = replace(question, draft_factor=4.0)
    gains = dict(improvements(late, best(late, "ssd", 4, 1, 5)))
    assert gains["draft passes, a tenth shorter"] > gains["better prediction: a tenth fewer misses"]


def test_the_verdict_counts_devices(question):
    text = verdict(compare(question))
    assert "SSD on 4+1" in text
    assert "it pays" in text
    poor = replace(question, laws=question.laws.changed(rejections=5.0, misses=3.0), draft_devices=4)
    assert "does not pay" in verdict(compare(poor))


def test_a_plan_is_whole(question):
    found = plan(question)
    assert {row["mode"] for row in found["rows"]} == {"ar", "sd", "ssd"}
    for row in found["rows"]:
        assert row["low"] < row["tokens_per_second"] < row["high"]
        if row["group"] == "asked":
            assert row["simulated_tokens_per_second"] == pytest.approx(row["tokens_per_second"], rel=0.06)
