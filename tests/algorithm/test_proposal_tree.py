"""A proposal tree as data, and the dynamic builder: the best of all trees, found by looking at all of them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.proposal_tree import GrowingTree, ProposalTree, chain, grow
from saguaro.errors import ProtocolError

TREE = ProposalTree((5, 9, 2, 7, 5), (0, 0, 1, 1, 2))


@st.composite
def trees(draw, most=8, vocab=4):
    """Any tree of at most `most` nodes over few tokens."""
    tokens, parents = [], []
    for _ in range(draw(st.integers(0, most))):
        parent, token = draw(st.integers(0, len(tokens))), draw(st.integers(0, vocab - 1))
        if (parent, token) not in zip(parents, tokens, strict=True):
            parents.append(parent)
            tokens.append(token)
    return ProposalTree(tuple(tokens), tuple(parents))


def paths(tree):
    return {tree.tokens_to(node) for node in range(1, len(tree) + 1)}


def test_paths_depths_children_and_trunk():
    assert TREE.depths == (1, 1, 2, 2, 2)
    assert TREE.levels == 2
    assert TREE.children == ((1, 2), (3, 4), (5,), (), (), ())
    assert TREE.path(4) == (1, 4)
    assert TREE.tokens_to(4) == (5, 7)
    assert TREE.path(0) == ()
    assert TREE.trunk == 1
    assert ProposalTree((), ()).levels == 0


def test_a_chain_is_a_tree_whose_nodes_are_the_accepted_tokens():
    tree = chain((4, 4, 6))
    assert tree.parents == (0, 1, 2)
    assert tree.trunk == tree.levels == 3
    assert [tree.tokens_to(node) for node in range(4)] == [(), (4,), (4, 4), (4, 4, 6)]


@pytest.mark.parametrize(
    ("tokens", "parents"), [((1, 2), (0,)), ((1,), (1,)), ((1, 2), (0, 2)), ((1, 1), (0, 0)), ((1,), (-1,))]
)
def test_what_is_no_tree_is_refused(tokens, parents):
    with pytest.raises(ProtocolError):
        ProposalTree(tokens, parents)


@given(trees())
def test_the_trunk_comes_first_and_nothing_else_changes(tree):
    moved = tree.trunk_first()
    assert paths(moved) == paths(tree)
    length, node = 0, 0
    while moved.children[node]:
        node = moved.children[node][0]
        length += 1
    assert moved.trunk >= length
    assert moved.trunk_first() == moved
    for node in range(1, len(moved) + 1):  # siblings keep their order
        same = [moved.tokens[child - 1] for child in moved.children[node]]
        old = next(n for n in range(1, len(tree) + 1) if tree.tokens_to(n) == moved.tokens_to(node))
        assert same == [tree.tokens[child - 1] for child in tree.children[old]]


# -- the builder -------------------------------------------------------------------------------------------------------

VOCAB = 3


def every_path(levels):
    return [path for n in range(1, levels + 1) for path in itertools.product(range(VOCAB), repeat=n)]


@st.composite
def worlds(draw):
    """Odds after every path, listed best first and not always whole."""
    levels = draw(st.integers(1, 2))
    known = {}
    for path in [(), *every_path(levels - 1)]:
        weights = draw(st.lists(st.integers(0, 4), min_size=VOCAB, max_size=VOCAB))
        total = sum(weights) + draw(st.integers(0, 2))
        order = sorted(range(VOCAB), key=lambda token: -weights[token])
        known[path] = (order, [weights[token] / total if total else 0.0 for token in order])
    return known, levels, draw(st.integers(0, 6))


@given(worlds())
def test_no_tree_of_as_many_nodes_is_expected_to_give_more(world):
    known, levels, nodes = world
    tree, reach = grow(lambda path: known[path], nodes=nodes, levels=levels)
    assert len(tree) <= nodes
    assert tree.levels <= levels
    chances = {(): 1.0}
    for path in every_path(levels):
        order, odds = known[path[:-1]]
        chances[path] = chances[path[:-1]] * odds[order.index(path[-1])]
    assert list(reach) == sorted(reach, reverse=True)
    for node, chance in enumerate(reach, start=1):
        assert chance == pytest.approx(chances[tree.tokens_to(node)])
    best = 0.0
    for chosen in itertools.combinations(every_path(levels), min(nodes, len(chances) - 1)):
        if all(len(path) == 1 or path[:-1] in chosen for path in chosen):
            best = max(best, sum(chances[path] for path in chosen))
    assert sum(reach) == pytest.approx(best, abs=1e-12)


@given(worlds(), st.integers(0, 6))
def test_the_first_nodes_of_the_best_tree_are_the_best_smaller_tree(world, count):
    known, levels, nodes = world
    tree, reach = grow(lambda path: known[path], nodes=nodes, levels=levels)
    _, few = grow(lambda path: known[path], nodes=min(count, nodes), levels=levels)
    assert sum(few) == pytest.approx(sum(reach[:count]))
    assert tree.first(len(few)).levels <= levels  # no node of them lacks its parent


def test_only_what_may_still_count_is_looked_at():
    growing = GrowingTree(nodes=3, levels=3)
    growing.add(0, [7, 8, 9], [0.6, 0.3, 0.1])
    assert [growing.tokens[node] for node in growing.frontier()] == [7, 8, 9]
    growing.add(1, [1, 2], [0.9, 0.1])  # .54 and .06: token 9 is no longer among the best three
    assert [growing.tokens[node] for node in growing.frontier()] == [1, 8]
    growing.close(2)
    assert [growing.tokens[node] for node in growing.frontier()] == [1]
    assert growing.tree()[0] == ProposalTree((7, 1, 8), (0, 1, 0))


def test_a_path_is_found_by_its_tokens():
    growing = GrowingTree(nodes=4, levels=2)
    growing.add(0, [7, 8], [0.6, 0.4])
    growing.add(2, [7], [0.5])
    assert growing.find([8, 7, 1]) == [2, 3]
    assert growing.find([7, 7]) == [1]
    assert growing.find([5]) == []
