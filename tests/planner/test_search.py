from dataclasses import replace

import pytest

from saguaro.errors import ConfigError
from saguaro.planner.predict import Candidate, predict
from saguaro.planner.search import best, compare


def test_the_best_setting_is_the_best_of_all(question):
    found = best(question, "ssd", 4, 1, 5)
    for lookahead in (1, 4, 7, 10):
        for budget in (4, 24):
            for fallback in ("none", "neural"):
                other = predict(question, Candidate("ssd", 4, 1, 5, lookahead, budget, fallback))
                assert found.tokens_per_second >= other.tokens_per_second


def test_given_settings_are_kept(question):
    found = best(replace(question, lookahead=3, budget=5), "ssd", 4, 1, 5).candidate
    assert (found.lookahead, found.budget) == (3, 5)


def test_equal_devices_are_compared(question):
    compared = compare(question)
    assert [each.candidate.mode for each in compared.asked] == ["ar", "sd", "ssd"]
    assert {each.candidate.devices for each in (*compared.equal, *compared.others)} == {5}
    # 64 heads do not divide by 5, so that SD leaves a device of five idle, and pays for it.
    assert compared.of("sd", equal=True).candidate.placement == "4 of 5"
    assert compared.of("sd", equal=True).per_device == pytest.approx(0.8 * compared.of("sd").per_device)
    eight = compare(replace(question, draft_devices=4))
    assert eight.of("sd", equal=True).candidate.target_devices == 8
    assert {each.candidate.placement for each in eight.others} == {"2+6"}


def test_what_does_not_fit_is_said(question):
    assert any("does not fit" in why for why in compare(question).left_out)
    with pytest.raises(ConfigError, match="GB"):
        compare(replace(question, target_devices=1))
    with pytest.raises(ConfigError, match="do not divide by 3"):
        compare(replace(question, target_devices=3))


def test_without_a_draft_there_is_only_ar(question):
    compared = compare(replace(question, draft=None, draft_devices=0))
    assert [each.candidate.mode for each in compared.every] == ["ar"]


def test_measured_times_hold_where_they_were_measured(question):
    times = {"verify_alone": {1: 0.02, 8: 0.02}, "step_alone": {1: 0.002, 8: 0.002}}
    compared = compare(replace(question, times=times))
    assert compared.of("ar").tokens_per_second == pytest.approx(50)
    assert compared.equal == compared.others == []
