import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.fan_out import open_fan_out
from saguaro.algorithm.fan_out.geometric import AFTER_ALL_ACCEPTED, AFTER_REJECTION, Geometric
from saguaro.algorithm.fan_out.listed import Listed
from saguaro.errors import ConfigError
from saguaro.theory.acceptance import number_accepted
from saguaro.theory.evidence import assumed
from saguaro.theory.fan_out import PowerLaw, expected_hit_rate, geometric_shape


@given(st.integers(0, 3), st.integers(0, 8), st.floats(0, 1))
def test_geometric_is_the_best_whole_number_fan_out(lookahead, budget, a):
    weights = number_accepted([a] * lookahead)
    hits = [AFTER_REJECTION.hit] * lookahead + [AFTER_ALL_ACCEPTED.hit]
    counts = Geometric().counts(lookahead, budget, assumed(a), after_hit=True)
    best = max(
        expected_hit_rate(weights, hits, other)
        for other in itertools.product(range(budget + 1), repeat=lookahead + 1)
        if sum(other) <= budget
    )
    assert expected_hit_rate(weights, hits, counts) == pytest.approx(best, abs=1e-12)


def test_geometric_with_one_curve_follows_theorem_12():
    """With the theorem's own law at every position, a large budget splits as the closed form says."""
    law = PowerLaw(c=0.5, r=0.5)
    counts = Geometric(after_rejection=law, after_all=law).counts(4, 60, assumed(0.8), after_hit=True)
    shape = geometric_shape(0.8, 0.5, lookahead=4, budget=60)
    assert list(counts) == pytest.approx(shape, abs=1.01)


def test_geometric_falls_with_k():
    counts = Geometric().counts(6, 20, assumed(0.8), after_hit=True)
    assert list(counts[:-1]) == sorted(counts[:-1], reverse=True)
    assert counts[0] > counts[5]
    assert counts[-1] >= 1


def test_geometric_moves_to_where_the_outcome_will_be():
    assert Geometric().counts(3, 4, assumed(0.0), after_hit=False) == (4, 0, 0, 0)
    assert Geometric().counts(3, 4, assumed(1.0), after_hit=True) == (0, 0, 0, 4)


def test_geometric_of_prefill_guesses_the_first_token():
    assert Geometric().counts(0, 4, assumed(0.8), after_hit=True) == (4,)


def test_geometric_at_small_budgets():
    """One guess everywhere before a second one anywhere, at the acceptance that runs start from."""
    assert Geometric().counts(3, 4, assumed(0.8), after_hit=True) == (1, 1, 1, 1)
    assert Geometric().counts(3, 8, assumed(0.8), after_hit=True) == (2, 2, 2, 2)


def test_listed_after_hits_and_misses():
    policy = Listed((1, 2, 3), after_miss=(4, 0, 1))
    assert policy.counts(2, 9, assumed(0.5), after_hit=True) == (1, 2, 3)
    assert policy.counts(2, 9, assumed(0.5), after_hit=False) == (4, 0, 1)


def test_listed_for_fewer_and_more_tokens_than_it_was_made_for():
    policy = Listed((3, 2, 1))
    assert policy.counts(0, 9, assumed(0.8), after_hit=True) == (1,)
    assert policy.counts(1, 9, assumed(0.8), after_hit=True) == (3, 1)
    assert policy.counts(3, 9, assumed(0.8), after_hit=True) == (3, 2, 2, 1)


def test_listed_over_budget_is_cut_from_the_largest():
    assert Listed((3, 3, 1)).counts(2, 5, assumed(0.8), after_hit=True) == (2, 2, 1)


@pytest.mark.parametrize("wrong", [(), (1, -1)])
def test_listed_checks_its_list(wrong):
    with pytest.raises(ConfigError):
        open_fan_out(wrong)


def test_open_by_name_list_or_path():
    assert open_fan_out([1, 0]).counts(1, 5, assumed(0.8), after_hit=True) == (1, 0)
    assert open_fan_out("none").counts(2, 5, assumed(0.8), after_hit=True) == (0, 0, 0)
    assert open_fan_out("saguaro.algorithm.fan_out.uniform:Uniform").counts(1, 4, assumed(0.8), after_hit=True) == (
        2,
        2,
    )
    with pytest.raises(ConfigError, match="did you mean 'uniform'"):
        open_fan_out("unifrom")
