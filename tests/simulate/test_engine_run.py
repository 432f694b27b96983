"""The engine's own run by hand, against recorded rounds, and where it parts from steps of all branches."""

from dataclasses import replace

import pytest
from tests.simulate.test_agreement import recorded

from saguaro.errors import ConfigError
from saguaro.simulate.clock import Requests, Setting, simulate
from saguaro.simulate.costs import Costs
from saguaro.simulate.drafting import ASK
from saguaro.simulate.engine_run import simulate_engine
from saguaro.simulate.pairs import LawfulPair, RecordedPair, consistent, unproposed
from saguaro.simulate.replay import replay
from saguaro.theory.acceptance import expected_tokens
from saguaro.theory.fan_out import PowerLaw

LAW = PowerLaw(c=0.5, r=0.6)
PAIR = LawfulPair({"draft": consistent(0.8, LAW), "none": unproposed(LAW)}, listed=8)
SURE = LawfulPair({"draft": consistent(1.0, LAW), "none": unproposed(PowerLaw(c=0.0, r=1.0))}, listed=8)
FLAT = Costs(lambda rows: 1.0, lambda rows: 0.2)


def test_ar_gives_a_token_a_pass():
    found = simulate_engine(Setting("ar"), FLAT, PAIR, rounds=51)
    assert (found.rounds, found.tokens, found.seconds) == (50, 50, pytest.approx(50))
    assert found.hit_rate is None


def test_sd_takes_turns():
    found = simulate_engine(Setting("sd", 3), replace(FLAT, link=0.01, handling=0.02), PAIR, rounds=6000)
    assert found.round_seconds == pytest.approx(1.0 + 3 * 0.2 + 2 * 0.01 + 0.02, rel=1e-3)
    assert found.tokens_a_round == pytest.approx(expected_tokens([0.8] * 3), rel=0.02)


def test_hints_of_the_texts_save_passes():
    laws = {"draft": consistent(0.95, LAW), "none": unproposed(LAW)}
    pair = LawfulPair(laws, hints=[(2, 1)])
    found = simulate_engine(Setting("sd", 4), FLAT, pair, rounds=3000)
    assert found.round_seconds == pytest.approx(1.0 + 2 * 0.2, rel=1e-2)
    assert found.tokens_a_round == pytest.approx(expected_tokens([0.95] * 4), rel=0.02)
    none = simulate_engine(Setting("sd", 4), FLAT, LawfulPair(laws, hints=[(0, 0)]), rounds=100)
    assert none.round_seconds == pytest.approx(1.8, rel=1e-2)


def test_ssd_with_certain_hits_hides_the_draft():
    found = simulate_engine(Setting("ssd", 3, budget=4), FLAT, SURE, rounds=300)
    assert found.hit_rate == 1
    assert found.round_seconds == pytest.approx(1.0, rel=0.01)
    assert found.tokens_a_round == pytest.approx(4, rel=0.02)


def test_a_verification_beside_a_draft_that_idles():
    """The tail and one token of one branch take .3 s, in which .15 of a verification is done; .85 is done alone."""
    costs = Costs(lambda rows: 1.0, lambda rows: 0.1, lambda rows: 2.0, lambda rows: 0.15)
    found = simulate_engine(Setting("ssd", 1, budget=1), costs, SURE, rounds=400)
    assert found.round_seconds == pytest.approx(1.15, rel=0.01)
    assert found.draft_busy / found.rounds == pytest.approx(0.3, rel=0.01)


def test_a_large_budget_of_dear_rows_does_no_harm():
    """Steps of all ten branches would come too late; rows that are worth their time come in time."""
    costs = Costs(lambda rows: 1.0, lambda rows: 0.05 + 0.05 * rows)
    setting = Setting("ssd", 3, budget=10)
    own, all_ = simulate_engine(setting, costs, PAIR, rounds=1200), simulate(setting, costs, PAIR, rounds=1200)
    few = simulate_engine(replace(setting, budget=4), costs, PAIR, rounds=1200)
    assert own.tokens_per_second > 1.2 * all_.tokens_per_second
    assert own.tokens_per_second > 0.97 * few.tokens_per_second


def test_nothing_is_asked_for_where_the_draft_is_dear():
    dear = Costs(lambda rows: 1.0, lambda rows: 3.0)
    found = simulate_engine(Setting("sd", 3), dear, PAIR, rounds=500)
    assert found.proposed < 0.1 * found.rounds
    assert found.tokens_per_second == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("policy", ["uniform", (2, 1, 0, 1, 4)])
def test_recorded_rounds_hit_as_in_replay(policy):
    """A draft with all the time in the world prepares what the policy names: the same hits, round by round."""
    rounds = recorded(400)
    expected = replay(rounds, policy, 8, lookahead=4, learning=False)
    fast = Costs(lambda rows: 1.0, lambda rows: 1e-3)
    found = simulate_engine(Setting("ssd", 4, 8, policy), fast, RecordedPair(rounds, listed=9), rounds=len(rounds))
    assert found.hits == sum(expected)
    assert found.tokens == sum(each.accepted + 1 for each in rounds[1:])


def test_branches_that_gave_way_are_hits_as_well():
    rounds = recorded(400)
    expected = sum(replay(rounds, "ranked", 8, lookahead=4, learning=False))
    fast = Costs(lambda rows: 1.0, lambda rows: 1e-3)
    found = simulate_engine(Setting("ssd", 4, 8, "ranked"), fast, RecordedPair(rounds, listed=9), rounds=len(rounds))
    assert expected <= found.hits < 1.1 * expected


def test_texts_end_one_by_one():
    rounds = [replace(each, request=request) for request in (0, 1) for each in recorded(30 + request)]
    pair = RecordedPair(rounds, ends=True)
    whole = sum(each.accepted + 1 for each in rounds)
    assert pair.left(0) == sum(each.accepted + 1 for each in rounds if not each.request)
    assert pair.left(1) == sum(each.accepted + 1 for each in rounds if each.request)
    ar = simulate_engine(Setting("ar"), FLAT, RecordedPair(rounds, ends=True), rounds=whole)
    assert (ar.tokens, ar.seconds) == (whole - 2, pytest.approx(whole - 2))  # first tokens come with the prompts
    sd = simulate_engine(Setting("sd", 4), FLAT, pair, rounds=2000)
    free = simulate_engine(Setting("sd", 4), FLAT, RecordedPair(rounds), rounds=2000)
    assert sd.tokens_a_round == pytest.approx(free.tokens_a_round, rel=0.05)


def test_a_batch_does_not_wait_for_one_row():
    """What one missed row gains by an answer of the draft costs three others more (Theorem 17)."""
    setting = Setting("ssd", 3, budget=4)
    one, four = (simulate_engine(replace(setting, batch=batch), FLAT, PAIR, rounds=800) for batch in (1, 4))
    assert four.waited_seconds / four.rounds < 0.3 * one.waited_seconds / one.rounds
    assert four.tokens_per_second > 3 * one.tokens_per_second


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"handover": ASK}, "push"),
        ({"fallback": "random"}, "none or neural"),
        ({"requests": Requests(8, 8)}, "prompts"),
    ],
)
def test_what_it_does_not_simulate(change, said):
    with pytest.raises(ConfigError, match=said):
        simulate_engine(replace(Setting("ssd", 3, budget=4), **change), FLAT, PAIR)
