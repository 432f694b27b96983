"""Every row of the fan-out table keeps what `FanOutPolicy` promises, and changes no token."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lossless.conftest import opened

from saguaro import SamplingParams
from saguaro.algorithm.fan_out import FAN_OUT, open_fan_out
from saguaro.algorithm.fan_out.base import guesses_needed
from saguaro.algorithm.odds import Guesses, guess_odds
from saguaro.theory.evidence import RunningEvidence, assumed

POLICIES = [name if name != "listed" else (3, 1, 0, 2) for name in FAN_OUT]
RATES = st.floats(0, 1)
SCORES = st.lists(st.floats(-30, 30), min_size=2, max_size=8).map(lambda s: sorted(s, reverse=True))


@pytest.mark.parametrize("spec", POLICIES, ids=str)
@given(st.integers(0, 16), st.integers(0, 64), RATES, st.booleans())
def test_counts(spec, lookahead, budget, acceptance, after_hit):
    evidence = assumed(acceptance)
    counts = open_fan_out(spec).counts(lookahead, budget, evidence, after_hit=after_hit)
    assert isinstance(counts, tuple)
    assert len(counts) == lookahead + 1
    assert all(isinstance(count, int) and count >= 0 for count in counts)
    assert sum(counts) <= budget
    assert counts == open_fan_out(spec).counts(lookahead, budget, evidence, after_hit=after_hit)


@pytest.mark.parametrize("spec", POLICIES, ids=str)
@given(st.integers(0, 8), st.integers(0, 24))
def test_short_proposals_find_enough_guesses(spec, lookahead, budget):
    """What is listed of a position suffices for every proposal of a run, the empty one of prefill included."""
    policy, evidence = open_fan_out(spec), RunningEvidence()
    needed = guesses_needed(policy, lookahead, budget, evidence)
    for depth in range(lookahead + 1):
        for after_hit in (True, False):
            counts = policy.counts(depth, budget, evidence.of(after_hit=after_hit), after_hit=after_hit)
            assert max(counts) < needed


@pytest.mark.parametrize("spec", POLICIES, ids=str)
def test_a_policy_keeps_no_memory(spec):
    policy = open_fan_out(spec)
    first = policy.counts(4, 12, assumed(0.7), after_hit=True)
    policy.counts(2, 3, assumed(0.1), after_hit=False)
    assert policy.counts(4, 12, assumed(0.7), after_hit=True) == first


@pytest.mark.parametrize("spec", [spec for spec in POLICIES if spec != "none"], ids=str)
def test_a_budget_is_used(spec):
    assert sum(open_fan_out(spec).counts(3, 4, assumed(0.8), after_hit=True)) == 4


@pytest.mark.parametrize("spec", POLICIES, ids=str)
@given(st.lists(SCORES, min_size=1, max_size=4), st.integers(0, 9))
def test_what_is_chosen(spec, scores, budget):
    """At most B different outcomes, likeliest first, none that cannot occur, for as many positions as are known."""
    positions = [Guesses(list(range(10, 10 + len(s))), guess_odds(s), s) for s in scores]
    sent = [10] * (len(positions) - 1)
    policy = open_fan_out(spec)
    counts = policy.counts(len(sent), budget, assumed(0.7), after_hit=True)
    for known in range(1, len(positions) + 1):
        chosen = policy.choose(positions[:known], sent, budget, counts)
        odds, outcomes = [each for each, _ in chosen], [outcome for _, outcome in chosen]
        assert len(set(outcomes)) == len(outcomes) <= budget
        assert odds == sorted(odds, reverse=True)
        assert all(outcome.accepted < known for outcome in outcomes)
        assert all(outcome.bonus in positions[outcome.accepted].tokens for outcome in outcomes)
        assert all(outcome.bonus != 10 for outcome in outcomes if outcome.accepted < len(sent))
    if not policy.chooses:
        by_position = [sum(outcome.accepted == k for outcome in outcomes) for k in range(len(positions))]
        assert all(found <= count for found, count in zip(by_position, counts, strict=True))


@pytest.mark.parametrize("verification", ["shared_noise", "rejection"])
@pytest.mark.parametrize("spec", POLICIES, ids=str)
def test_tokens_are_those_of_ar(spec, verification):
    params = SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)
    prompts = [[1, 2, 3], [4, 5]]
    with opened("ar", "float32", "loopback") as llm:
        wanted = [each.token_ids for each in llm.generate(prompts, params)]
    lookahead = 3
    options: dict[str, Any] = {"budget": 6} if isinstance(spec, str) else {}
    options |= {"fan_out": spec, "lookahead": lookahead, "verification": verification, "pacing": "lockstep"}
    with opened("ssd", "float32", "loopback", **options) as llm:
        found = llm.generate(prompts, params)
        assert [each.token_ids for each in found] == wanted
        assert (sum(each.metrics.hits for each in found) > 0) == (spec != "none")
