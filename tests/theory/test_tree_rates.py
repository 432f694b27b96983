"""Static trees against all trees of their size, and the choice between chain and tree."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.theory.acceptance import expected_tokens
from saguaro.theory.rates import StepTimes, promise, sd_rate
from saguaro.theory.tree_rates import best_chain, best_proposal, best_shape, shape_rate

FLAT = {1: 1.0, 8: 1.0, 64: 1.0}
STEEP = {1: 1.0, 2: 1.6, 64: 38.0}


def every_tree(nodes, levels):
    """All trees in which a node's children are its first, second, ... guess: depths, ranks and parents."""
    found = {()}
    for _ in range(nodes):
        grown = set()
        for tree in found:
            for parent in range(-1, len(tree)):
                depth = 1 if parent < 0 else tree[parent][0] + 1
                rank = sum(1 for _, _, p in tree if p == parent)
                if depth <= levels:
                    grown.add((*tree, (depth, rank, parent)))
        found = grown or found
    return found


@given(
    st.lists(st.floats(0.01, 0.4), min_size=1, max_size=3).map(lambda odds: sorted(odds, reverse=True)),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_no_shape_of_the_size_expects_more(odds, nodes, levels):
    shape = best_shape(odds, nodes=nodes, levels=levels)
    best = 0.0
    for tree in every_tree(nodes, levels):
        reach = []
        for _, rank, parent in tree:
            reach.append((reach[parent] if parent >= 0 else 1.0) * (odds[rank] if rank < len(odds) else 0.0))
        best = max(best, 1 + sum(reach))
    assert shape.expected == pytest.approx(best)
    assert shape.size <= nodes
    assert shape.levels <= levels
    assert len(shape.inner) == len(shape.nodes)


def test_a_shape_by_hand():
    shape = best_shape([0.6, 0.3], nodes=4, levels=2)  # .6, .36, .3, and .18 twice: the sibling under the first child
    assert shape.expected == pytest.approx(1 + 0.6 + 0.36 + 0.3 + 0.18)
    assert shape.nodes == (2, 2)
    assert shape.size == 4
    assert shape.inner[1] == 0


def test_one_guess_a_level_is_a_chain_and_costs_what_a_chain_costs():
    times = StepTimes.of({1: 1.0, 2: 1.1, 4: 1.2, 8: 1.5}, {1: 0.2, 4: 0.25})
    for levels in (1, 3, 5):
        shape = best_shape([0.7], nodes=levels, levels=levels)
        assert shape.expected == pytest.approx(expected_tokens([0.7] * levels))
        assert shape_rate(times, shape) == pytest.approx(sd_rate(times, [0.7] * levels, lookahead=levels))
    best = promise("sd", times, [0.7] * 8, 0.0)
    assert best_chain(times, [0.7, 0.2]).levels == best.lookahead
    assert best_chain(times, [0.7, 0.2]).rate == pytest.approx(best.rate)


def test_a_tree_is_chosen_where_rows_are_free_and_a_chain_where_they_are_dear():
    odds = [0.6, 0.2, 0.1]
    free = best_proposal(StepTimes.of(FLAT, {1: 0.3, 8: 0.3}), odds)
    assert not free.is_chain
    assert free.nodes == 23
    dear = best_proposal(StepTimes.of(STEEP, {1: 0.05, 8: 0.4}), odds)
    assert dear.is_chain
    assert dear == best_chain(StepTimes.of(STEEP, {1: 0.05, 8: 0.4}), odds)


def test_the_choice_is_the_best_of_what_is_looked_at():
    times, odds = StepTimes.of({1: 1.0, 4: 1.15, 8: 1.4, 16: 2.2}, {1: 0.3, 4: 0.33, 8: 0.4}), [0.75, 0.12, 0.05]
    best = best_proposal(times, odds, nodes=(4, 8))
    rates = [
        shape_rate(times, best_shape(odds, nodes=nodes, levels=levels))
        for nodes, levels in itertools.product((4, 8), range(1, 9))
    ]
    assert best.rate == pytest.approx(max(*rates, best_chain(times, odds).rate))
    assert best_proposal(times, odds, rows=8).nodes <= best.nodes


def test_a_draft_that_is_never_right_gives_no_tree():
    assert best_shape([0.0], nodes=4, levels=2).size == 0
    assert best_shape([], nodes=4, levels=2).expected == 1.0
