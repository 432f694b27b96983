"""Chains with siblings: what stands beside a chain, which outcomes such a tree has, how likely each is."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.fan_out import FAN_OUT, open_fan_out
from saguaro.algorithm.odds import Guesses, best_outcomes, guess_odds, likely_outcomes
from saguaro.algorithm.proposal_tree import ProposalTree, chain, shaped
from saguaro.algorithm.siblings import (
    MAX_SIBLINGS,
    Sibling,
    best_tree_outcomes,
    chain_outcome,
    likeliest,
    reach_of,
    siblings_of,
    tree_outcomes,
    with_siblings,
)
from saguaro.algorithm.terms import Outcome

GUESSES = [
    Guesses([5, 7, 8], [0.6, 0.3, 0.1]),
    Guesses([6, 4, 2], [0.5, 0.4, 0.1]),
    Guesses([9, 3, 1], [0.7, 0.2, 0.1]),
]


def test_the_other_guesses_of_each_place_are_siblings() -> None:
    found = siblings_of((5, 4), GUESSES, each=1)
    assert found == (Sibling(0, 7, 0.3), Sibling(1, 6, pytest.approx(0.3)))
    assert siblings_of((5, 4, 9), GUESSES, each=1)[:2] == found  # a longer chain changes nothing of them
    assert siblings_of((5, 4), GUESSES[:1]) == (Sibling(0, 7, 0.3), Sibling(0, 8, 0.1))
    assert siblings_of((5,), [Guesses([5], [1.0])]) == ()
    many = [Guesses([1, 2, 3], [0.9, 0.05, 0.05])] * 40
    assert len(siblings_of((1,) * 40, many)) == MAX_SIBLINGS


def test_what_can_stand_beside_a_chain() -> None:
    """Nothing that a draft sends makes a tree that is none: tokens that are there already, places that are not."""
    sent = (Sibling(2, 8, 0.9), Sibling(-1, 8, 0.9), Sibling(0, 5, 0.8), Sibling(1, 7, 0.1), Sibling(0, 7, 0.4))
    found = likeliest((5, 4), [*sent, Sibling(0, 7, 0.3)])
    assert found == [Sibling(0, 7, 0.4), Sibling(1, 7, 0.1)]
    tree = with_siblings((5, 4), found)
    assert tree == ProposalTree((5, 4, 7, 7), (0, 1, 0, 1))
    assert tree.trunk == 2
    assert shaped(tree.tokens, tree.parents) == (tree, [5, 4])
    assert shaped((5, 4), ()) == (None, [5, 4])


def test_a_node_beside_the_trunk_is_a_bonus_token_of_the_chain() -> None:
    tree = ProposalTree((5, 4, 7, 2, 3), (0, 1, 0, 1, 4))
    assert [tree.along(node) for node in range(6)] == [0, 1, 2, 0, 1, 1]
    assert chain_outcome(tree, Outcome(2, 9)) == Outcome(2, 9)
    assert chain_outcome(tree, Outcome(3, 9)) == Outcome(0, 7)
    assert chain_outcome(tree, Outcome(4, 9)) == Outcome(1, 2)
    assert chain_outcome(tree, Outcome(5, 9)) == Outcome(1, 2)


def law(seed: int, path: tuple[int, ...], vocab: int) -> Guesses:
    """Odds of all tokens after a path: a whole law, so that those of outcomes sum to one."""
    at = 37.0 * (seed + 1) + 11.0 * sum((i + 2) * (token + 1) for i, token in enumerate(path))
    scores = sorted(((math.sin(at + 5.0 * t), t) for t in range(vocab)), reverse=True)
    weights = [math.exp(2 * score) for score, _ in scores]
    return Guesses([t for _, t in scores], [w / sum(weights) for w in weights], [score for score, _ in scores])


@given(st.integers(0, 100), st.integers(2, 4), st.integers(0, 3), st.data())
def test_odds_of_outcomes_against_enumeration(seed: int, vocab: int, depth: int, data: st.DataObject) -> None:
    """Every text of the target, drawn from the draft's own law, walked through the tree by hand."""
    tokens = tuple(law(seed, (), vocab).tokens[0] if not i else (seed + i) % vocab for i in range(depth))
    places = [(place, token) for place in range(depth) for token in range(vocab) if token != tokens[place]]
    beside = data.draw(st.lists(st.sampled_from(places), unique=True, max_size=4)) if places else []
    tree = with_siblings(tokens, [Sibling(place, token, 0.5) for place, token in beside])
    guesses = {node: law(seed, tree.tokens_to(node), vocab) for node in range(len(tree) + 1)}
    expected: dict[Outcome, float] = {}
    for text in itertools.product(range(vocab), repeat=depth + 2):
        mass, node = 1.0, 0
        for place, token in enumerate(text):
            mass *= law(seed, text[:place], vocab).of(token)
        for token in text:
            child = [each for each in tree.children[node] if tree.tokens[each - 1] == token]
            if not child:
                expected[Outcome(node, token)] = expected.get(Outcome(node, token), 0.0) + mass
                break
            node = child[0]
    found = tree_outcomes(guesses, tree, lambda _: vocab)
    assert sum(odds for odds, _ in found) == pytest.approx(1.0)
    assert {key: odds for odds, key in found} == {key: pytest.approx(mass) for key, mass in expected.items()}
    assert [odds for odds, _ in found] == sorted((odds for odds, _ in found), reverse=True)
    for budget in range(4):
        assert best_tree_outcomes(guesses, tree, budget) == found[:budget]
    assert reach_of(tree, guesses, 0) == 1.0


@given(st.integers(0, 100), st.integers(0, 3), st.integers(0, 6), st.integers(0, 4))
def test_a_tree_without_siblings_is_a_chain(seed: int, depth: int, budget: int, known: int) -> None:
    tokens = tuple((seed + i) % 5 for i in range(depth))
    guesses = [law(seed, tokens[:place], 5) for place in range(min(known, depth + 1))]
    by_node = dict(enumerate(guesses))
    assert best_tree_outcomes(by_node, chain(tokens), budget) == best_outcomes(guesses, tokens, budget)
    counts = [1, 3, 2, 4][: len(guesses)]
    assert tree_outcomes(by_node, chain(tokens), lambda node: counts[node]) == likely_outcomes(guesses, tokens, counts)


@pytest.mark.parametrize("name", [name for name in FAN_OUT if name not in ("none", "listed", "single_branch")])
def test_policies_choose_for_trees_as_for_chains(name: str) -> None:
    policy, tokens = open_fan_out(name), (5, 6)
    scored = [each._replace(scores=[0.0, -1.0, -2.0], odds=guess_odds([0.0, -1.0, -2.0])) for each in GUESSES]
    counts = (1, 2, 1)
    found = policy.choose_on_tree(dict(enumerate(scored)), chain(tokens), 3, counts)
    assert found == policy.choose(scored, tokens, 3, counts)
    tree = with_siblings(tokens, [Sibling(0, 7, 0.3)])
    beside = {**dict(enumerate(scored)), 3: scored[2]}
    more = policy.choose_on_tree(beside, tree, 9, counts)
    assert Outcome(0, 7) not in [key for _, key in more]
    assert Outcome(0, 8) in [key for _, key in more]
    assert Outcome(3, 9) in [key for _, key in more]


def test_places_are_kept_for_nodes_that_are_not_known_yet() -> None:
    tree = with_siblings((5, 6), [Sibling(0, 7, 0.3)])
    known = {0: GUESSES[0], 1: GUESSES[1], 2: GUESSES[2]}
    later = {**known, 3: GUESSES[2]}
    few, all_ = best_tree_outcomes(known, tree, 4), best_tree_outcomes(later, tree, 4)
    assert len(few) < 4 == len(all_)
    assert few == best_tree_outcomes(known, tree, 9)[: len(few)]
