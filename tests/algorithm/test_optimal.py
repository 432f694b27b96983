"""Theorem 18 from measured curves, and the policies of the literature by hand."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.fan_out import open_fan_out
from saguaro.algorithm.odds import Guesses, softmax
from saguaro.algorithm.terms import Outcome
from saguaro.theory.acceptance import number_accepted
from saguaro.theory.evidence import Evidence, assumed
from saguaro.theory.fan_out import expected_hit_rate

PROBABILITY = st.floats(0, 1)


def concave(gains):
    """A hit curve from the shares that further guesses add, largest first."""
    total = max(1.0, sum(gains))
    return (0.0, *itertools.accumulate(gain / total for gain in sorted(gains, reverse=True)))


CURVES = st.lists(PROBABILITY, min_size=1, max_size=6).map(concave)


@given(st.integers(0, 3), st.integers(0, 7), st.lists(PROBABILITY, max_size=3), PROBABILITY, CURVES, CURVES)
def test_optimal_is_the_best_whole_number_fan_out(lookahead, budget, rates, rate, rejected, everything):
    evidence = Evidence(rate, tuple(rates), rejected, everything)
    counts = open_fan_out("optimal").counts(lookahead, budget, evidence, after_hit=True)
    weights = number_accepted(evidence.rates(lookahead))

    def hit(curve):
        return lambda guesses: curve[min(guesses, len(curve) - 1)]

    hits = [hit(rejected)] * lookahead + [hit(everything)]
    best = max(
        expected_hit_rate(weights, hits, other)
        for other in itertools.product(range(budget + 1), repeat=lookahead + 1)
        if sum(other) <= budget
    )
    assert expected_hit_rate(weights, hits, counts) == pytest.approx(best, abs=1e-9)


def test_optimal_equals_geometric_under_what_geometric_assumes():
    for rate, budget in itertools.product((0.3, 0.8, 0.95), (4, 9, 24)):
        geometric, optimal = (open_fan_out(name) for name in ("geometric", "optimal"))
        evidence = assumed(rate)
        assert optimal.counts(4, budget, evidence, after_hit=True) == geometric.counts(
            4, budget, evidence, after_hit=True
        )


def position(*scores):
    return Guesses(list(range(1, 1 + len(scores))), softmax(list(scores)), list(scores))


def test_single_branch_goes_to_the_likeliest_cut():
    policy = open_fan_out("single_branch")
    sure, unsure = position(9.0, 0.0, -1.0), position(0.1, 0.0, 0.0)
    cut = policy.choose([sure, unsure, sure], [1, 1], 2, ())
    assert {outcome for _, outcome in cut} == {Outcome(1, 2), Outcome(1, 3)}
    everything = policy.choose([sure, sure, sure], [1, 1], 2, ())
    assert {outcome for _, outcome in everything} == {Outcome(2, 1), Outcome(2, 2)}
    assert policy.choose([sure], [1, 1], 2, ()) == []  # the odds of the second token are not known yet


def test_all_accepted_prepares_for_nothing_else():
    assert open_fan_out("all_accepted").counts(3, 5, assumed(0.1), after_hit=False) == (0, 0, 0, 5)


def test_token_tree_takes_the_largest_joint_probability():
    """1/2 of the mass goes on after either token: (0, 2) has .5, (1, 1) has .5 x .9 of the sent path."""
    first, second = position(0.0, 0.0), position(2.2, 0.0)
    taken = open_fan_out("token_tree").choose([first, second], [1], 2, ())
    assert [outcome for _, outcome in taken] == [Outcome(0, 2), Outcome(1, 1)]
    assert taken[0][0] == pytest.approx(0.5)
    assert taken[1][0] == pytest.approx(0.5 * softmax([2.2, 0.0])[0])
