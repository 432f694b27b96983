"""Promised speeds by hand, and what is chosen among them."""

import pytest

from saguaro.calibrate.predict import ar, best_of_each, every_setting, sd, ssd

TIMES = {
    "verify_alone": {1: 1.0, 100: 1.0},
    "verify_together": {1: 2.0, 100: 2.0},
    "step_alone": {1: 0.25, 100: 0.25},
    "step_together": {1: 0.5, 100: 0.5},
}


def test_by_hand():
    assert ar(TIMES, 4).tokens_per_second == pytest.approx(4)
    assert sd(TIMES, 1, 4, 3.0).tokens_per_second == pytest.approx(3 / (1 + 4 * 0.25))
    sure = ssd(TIMES, 1, 3, 8, "ranked", tokens=3.0, hit_rate=1.0)
    assert sure.tokens_per_second == pytest.approx(3 / 2)  # an extend and three steps take as long as a verification
    never = ssd(TIMES, 1, 3, 8, "ranked", tokens=3.0, hit_rate=0.0)
    assert never.tokens_per_second == pytest.approx(3 / (2 + 3 * 0.25))
    deep = ssd(TIMES, 1, 7, 8, "ranked", tokens=3.0, hit_rate=1.0)
    assert deep.tokens_per_second == pytest.approx(3 / 4)  # the draft is the slower one


def test_a_batch_waits_for_its_slowest_row():
    two = ssd(TIMES, 2, 3, 8, "ranked", tokens=3.0, hit_rate=0.5)
    assert two.tokens_per_second == pytest.approx(2 * 3 / (0.25 * 2 + 0.75 * (2 + 0.75)))


def test_the_fastest_of_each_mode_and_batch():
    tokens = [1.0, 1.8, 2.4, 2.8]
    every = every_setting(
        TIMES, tokens, lambda policy, k, b: {"a": 0.5, "b": 0.9}[policy] * (b > 2), policies=["a", "b"],
        lookaheads=[1, 2, 3], budgets=[2, 4], batches=[1, 2],
    )  # fmt: skip
    assert len(every) == 2 * (1 + 3 + 2 * 3 * 2)
    best = {(each.mode, each.batch): each for each in best_of_each(every)}
    assert len(best) == 6
    assert (best["ssd", 1].lookahead, best["ssd", 1].budget, best["ssd", 1].fan_out) == (3, 4, "b")
    assert best["sd", 1].lookahead == max(range(1, 4), key=lambda k: tokens[k] / (1 + k * 0.25))
