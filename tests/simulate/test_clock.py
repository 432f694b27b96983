"""The virtual clock by hand: constant times, and what each placement and hand-over makes of them."""

from dataclasses import replace

import pytest

from saguaro.errors import ConfigError
from saguaro.simulate.clock import Requests, Setting, simulate
from saguaro.simulate.costs import Costs
from saguaro.simulate.drafting import ASK, PUSH, DraftClock
from saguaro.simulate.pairs import LawfulPair, consistent, unproposed
from saguaro.theory.acceptance import expected_tokens
from saguaro.theory.fan_out import PowerLaw

LAW = PowerLaw(c=0.5, r=0.6)
PAIR = LawfulPair({"draft": consistent(0.8, LAW), "none": unproposed(LAW)})
SURE = LawfulPair({"draft": consistent(1.0, LAW), "none": unproposed(PowerLaw(c=0.0, r=1.0))})
FLAT = Costs(lambda rows: 1.0, lambda rows: 0.2)


def test_ar_gives_a_token_a_pass():
    found = simulate(Setting("ar", batch=3), FLAT, PAIR, rounds=50)
    assert (found.tokens, found.seconds) == (150, pytest.approx(50))
    assert found.hit_rate is None


def test_sd_takes_turns():
    """Whole proposals: each round after the first is one verification and three draft passes."""
    found = simulate(Setting("sd", 3, handover=ASK), FLAT, PAIR, rounds=6000)
    assert found.round_seconds == pytest.approx(1.6, rel=1e-3)
    assert found.tokens_a_round == pytest.approx(expected_tokens([0.8] * 3), rel=0.02)


def test_ssd_with_certain_hits_hides_the_draft():
    found = simulate(Setting("ssd", 3, budget=4, handover=ASK), FLAT, SURE, rounds=200)
    assert found.hit_rate == 1
    assert found.round_seconds == pytest.approx(1.0, rel=0.01)
    assert found.tokens_a_round == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize("handover", [ASK, PUSH])
def test_a_late_draft_is_waited_for(handover):
    """An extend and three steps of .3 are 1.2; certain hits are worth the wait: 4 tokens in 1.2, not 3 in 1."""
    late = replace(FLAT, draft=lambda rows: 0.3)
    found = simulate(Setting("ssd", 3, budget=4, handover=handover), late, SURE, rounds=300)
    assert found.round_seconds == pytest.approx(1.2, rel=0.02)


def test_push_need_not_wait_for_whole_proposals():
    """With an acceptance of .5 the deep tokens are not worth a long wait."""
    poor = LawfulPair({"draft": consistent(0.5, LAW), "none": unproposed(LAW)})
    late = replace(FLAT, draft=lambda rows: 0.6)
    setting = Setting("ssd", 5, budget=8, fallback="none")
    push = simulate(setting, late, poor, rounds=3000)
    ask = simulate(replace(setting, handover=ASK), late, poor, rounds=3000)
    assert push.depth < 4 < 5 == ask.depth
    assert push.tokens_per_second > 1.1 * ask.tokens_per_second


def test_a_slow_link_costs_less_when_entries_are_pushed():
    far = replace(FLAT, draft=lambda rows: 0.1, link=0.2)
    setting = Setting("ssd", 3, budget=8, fallback="none")
    push, ask = (simulate(replace(setting, handover=way), far, SURE, rounds=300).round_seconds for way in (PUSH, ASK))
    assert push == pytest.approx(1.0, rel=0.02)
    assert ask == pytest.approx(1.4, rel=0.02)  # there and back, every round


def test_several_draft_devices_share_the_branches():
    slow = replace(FLAT, draft=lambda rows: 0.1 * rows)
    setting = Setting("ssd", 3, budget=8, fallback="random", handover=ASK)
    one, four = (simulate(setting, replace(slow, draft_devices=n), PAIR, rounds=500) for n in (1, 4))
    assert one.hits == four.hits  # the same seed draws the same rounds
    assert one.seconds > 1.5 * four.seconds


def test_rows_are_drafted_together_after_misses():
    setting = Setting("ssd", 3, budget=4, handover=ASK)
    one, four = (simulate(replace(setting, batch=batch), FLAT, PAIR, rounds=6000) for batch in (1, 4))
    assert four.round_seconds > one.round_seconds  # some row misses more often
    assert four.tokens_a_round == pytest.approx(one.tokens_a_round, rel=0.02)


def test_prompts_are_filled_in_beside_rows_that_decode():
    by_rows = Costs(lambda rows: 1.0 + 0.01 * rows, lambda rows: 0.2)
    setting = Setting("ar", batch=2, requests=Requests(prompt=64, output=32, chunk=16))
    found = simulate(setting, by_rows, PAIR, rounds=1000)
    # Four passes a request fill its prompt, in which it gives nothing; then 32 give a token each.
    assert found.tokens / found.rounds == pytest.approx(2 * 32 / 36, rel=0.1)
    assert found.verify_seconds > simulate(replace(setting, requests=None), by_rows, PAIR, rounds=1000).verify_seconds


def test_a_run_depends_on_its_seed_alone():
    setting = Setting("ssd", 3, budget=6, fallback="adaptive", batch=2)
    first, again, other = (simulate(setting, FLAT, PAIR, rounds=300, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.tokens != other.tokens


def test_adaptive_is_no_worse_than_its_parts():
    costs = replace(FLAT, draft=lambda rows: 0.15 + 0.05 * rows)
    for batch in (1, 8):
        speed = {
            name: simulate(
                Setting("ssd", 4, budget=8, fallback=name, batch=batch), costs, PAIR, rounds=1500
            ).tokens_per_second
            for name in ("none", "neural", "adaptive")
        }
        assert speed["adaptive"] > 0.98 * max(speed["none"], speed["neural"])


def test_news_are_read_between_passes():
    clock = DraftClock(replace(FLAT, link=0.1), PUSH, 4)
    clock.begin(1.0, rows=1, branches=4)
    assert clock.arrives(2) == pytest.approx(1.0 + 0.2 + 2 * 0.2 + 0.1)
    assert [clock.free(told) for told in (1.05, 1.25, 1.4, 5.0)] == pytest.approx([1.2, 1.4, 1.4, 5.0])
    assert DraftClock(FLAT, ASK, 4).free(3.0) == 3.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mode": "ssdd"}, "did you mean 'ssd'"),
        ({"mode": "ssd", "lookahead": 2, "fallback": "nural"}, "did you mean 'neural'"),
        ({"mode": "sd"}, "lookahead of 1"),
        ({"mode": "ar", "batch": 0}, "1 row or more"),
    ],
)
def test_wrong_settings(wrong, said):
    with pytest.raises(ConfigError, match=said):
        Setting(**wrong)
