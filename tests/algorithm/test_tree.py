import itertools

import pytest
import torch

from saguaro.algorithm.tree import branch_position, shared_length, suffix_visibility


@pytest.mark.parametrize("lookahead", [0, 1, 2, 4, 7])
def test_the_table_equals_ancestry(lookahead):
    """A token sees a suffix slot exactly when the slot's token precedes it on its own path (or is itself)."""
    table = suffix_visibility(lookahead)
    assert table.shape == (lookahead + 1, lookahead + 1, 2 * lookahead + 1)
    for accepted, step in itertools.product(range(lookahead + 1), repeat=2):
        path = [*range(accepted), *range(lookahead, lookahead + step + 1)]
        assert table[accepted, step].nonzero()[:, 0].tolist() == path


def test_positions_are_those_of_the_text_that_the_branch_would_become():
    committed, proposal, own = list(range(100, 110)), [7, 8, 9], [50, 51, 52]
    for accepted in range(len(proposal) + 1):
        text = committed + proposal[:accepted] + own
        for step, token in enumerate(own):
            assert text[branch_position(len(committed), accepted, step)] == token
        assert text[: shared_length(len(committed), accepted)] == committed + proposal[:accepted]


def test_visible_slots_are_as_many_as_positions_after_the_committed_text():
    table = suffix_visibility(5)
    for accepted, step in itertools.product(range(6), repeat=2):
        assert int(table[accepted, step].sum()) == branch_position(10, accepted, step) + 1 - 10


def test_the_table_is_made_once():
    assert suffix_visibility(3) is suffix_visibility(3)
    assert suffix_visibility(3).dtype == torch.bool
