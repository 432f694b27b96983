"""Verification of proposal trees: the walk, the rule for siblings over all its numbers, chains as the special case."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.algorithm.test_proposal_tree import trees
from tests.algorithm.test_verify import random_laws

from saguaro.algorithm.agreement import verify_shared_noise
from saguaro.algorithm.proposal_tree import ProposalTree, chain
from saguaro.algorithm.terms import DenseLaw, Outcome, PointMassLaw, Proposal
from saguaro.algorithm.verify import outcome_law, verify_rejection
from saguaro.algorithm.verify_tree import (
    draw_children,
    tree_outcome_law,
    tree_uniforms,
    verify_tree_rejection,
    verify_tree_shared_noise,
    without,
)

VOCAB = 4


def test_the_walk_by_hand():
    tree = ProposalTree((5, 9, 2, 7), (0, 0, 1, 1))
    assert verify_tree_shared_noise([5, 7, 0, 0, 3], tree) == Outcome(4, 3)
    assert verify_tree_shared_noise([9, 7, 6, 0, 3], tree) == Outcome(2, 6)
    assert verify_tree_shared_noise([4, 7, 6, 0, 3], tree) == Outcome(0, 4)
    assert verify_tree_shared_noise([-1, 7, 6, 0, 3], tree) == Outcome(0, -1)


@given(trees(), st.data())
def test_the_walk_gives_the_targets_own_tokens(tree, data):
    own = data.draw(st.lists(st.integers(0, 3), min_size=len(tree) + 1, max_size=len(tree) + 1))
    node, bonus = verify_tree_shared_noise(own, tree)
    path = tree.path(node)
    assert [*tree.tokens_to(node), bonus] == [own[each] for each in (0, *path)]
    assert bonus not in [tree.tokens[child - 1] for child in tree.children[node]]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.data())
def test_a_chain_is_verified_as_ever(own, data):
    draft = data.draw(st.lists(st.integers(0, 2), max_size=len(own) - 1))
    assert verify_tree_shared_noise(own, chain(draft)) == verify_shared_noise(own, draft)


@given(st.integers(0, 2**32), st.booleans())
def test_a_chain_under_rejection_is_verified_as_ever(seed, certain):
    p_JV = random_laws(seed, (3, VOCAB))
    q_KV = random_laws(seed + 1, (2, VOCAB))
    tokens = (int(q_KV[0].argmax()), int(q_KV[1].argmax()))
    numbers = torch.rand(5, generator=torch.Generator().manual_seed(seed)).tolist()
    proposal = Proposal(tokens, PointMassLaw() if certain else DenseLaw(q_KV))
    laws = None if certain else dict(enumerate(q_KV))
    uniforms = {"accept_uniforms": numbers[:2], "residual_uniforms": numbers[2:]}
    assert verify_tree_rejection(p_JV, chain(tokens), laws, **uniforms) == verify_rejection(p_JV, proposal, **uniforms)
    if not certain:
        known = outcome_law(p_JV, torch.tensor(tokens), q_KV)
        assert torch.allclose(tree_outcome_law(p_JV, chain(tokens), laws), known, atol=1e-15)


def middles(boundaries):
    """A number within each of the parts into which (0, 1) falls, and how long the part is."""
    edges = sorted({0.0, 1.0, *(b for b in boundaries if 0 < b < 1)})
    return [((low + high) / 2, high - low) for low, high in itertools.pairwise(edges) if high - low > 1e-12]


@settings(max_examples=40, deadline=None)
@given(trees(most=3, vocab=3), st.integers(0, 2**32), st.sampled_from(["certain", "drawn", "first"]))
def test_over_all_its_numbers_it_is_the_outcome_law(tree, seed, kind):
    """Each number matters only by the part of (0, 1) that it lies in; all combinations of parts are summed."""
    p_JV, how = random_laws(seed, (len(tree) + 1, 3)), {"first_only": kind == "first"}
    laws = (
        None
        if kind == "certain"
        else {node: random_laws(seed + 1 + node, (3,), holes=0.0) for node in range(len(tree) + 1)}
    )
    found = torch.zeros_like(p_JV)
    cuts = [set() for _ in range(len(tree))]
    for node, children in enumerate(tree.children):
        _note_cuts(cuts, tree, children, p_JV[node], None if laws is None else laws[node], **how)
    for parts in itertools.product(*(middles(each) for each in cuts)):
        mass = 1.0
        for _, length in parts:
            mass *= length
        accept = [number for number, _ in parts]
        node = verify_tree_rejection(
            p_JV, tree, laws, accept_uniforms=accept, residual_uniforms=[0.5] * (len(tree) + 1), **how
        ).accepted
        rest = tree_outcome_law(p_JV, tree, laws, **how)[node]
        for number, length in middles((rest.cumsum(0) / rest.sum()).tolist()):
            outcome = verify_tree_rejection(
                p_JV, tree, laws, accept_uniforms=accept, residual_uniforms=[number] * (len(tree) + 1), **how
            )
            assert outcome.accepted == node
            found[outcome] += mass * length
    assert torch.allclose(found, tree_outcome_law(p_JV, tree, laws, **how), atol=1e-9)


def _note_cuts(cuts, tree, children, rest, q, *, first_only):
    """Where the acceptance of each child changes, by the definition of a draw without replacement (with `first_only`
    siblings are certain).
    """
    for child in children:
        token = tree.tokens[child - 1]
        law = torch.eye(3, dtype=torch.float64)[token] if q is None else q
        if law[token] > 0:
            cuts[child - 1].add(float(rest[token] / law[token]))
        rest = (rest - law).clamp_min(0)
        rest = rest / rest.sum() if rest.sum() > 0 else rest
        if q is not None:
            q = None if first_only else without(q, token)


def test_children_without_replacement():
    q_V = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
    assert draw_children(q_V, [0.1, 0.1, 0.9]) == (0, 1, 2)
    assert draw_children(q_V, [0.9, 0.5, 0.5, 0.5]) == (2, 0, 1)  # three tokens have mass, so three are drawn
    assert without(q_V, 0).tolist() == [0, 0.5, 0.5, 0]
    assert without(torch.tensor([1.0, 0.0]), 0).tolist() == [0, 0]


def test_a_token_that_the_target_never_says_is_never_accepted():
    p_JV = torch.tensor([[0.0, 0.5, 0.5], [1 / 3] * 3, [1 / 3] * 3], dtype=torch.float64)
    tree = ProposalTree((0, 1), (0, 0))
    for laws in (None, {0: torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)}):
        law = tree_outcome_law(p_JV, tree, laws)
        assert float(law[1].sum()) == 0
        outcome = verify_tree_rejection(
            p_JV, tree, laws, accept_uniforms=[0.0, 1 - 1e-9], residual_uniforms=[0.5, 0.5, 0.5]
        )
        assert outcome.accepted in (0, 2)


def test_certain_children_are_accepted_as_often_as_p_names_one_of_them():
    p_JV = random_laws(3, (4, VOCAB))
    tree = ProposalTree((2, 0, 3), (0, 0, 0))
    law = tree_outcome_law(p_JV, tree)
    for node, token in enumerate(tree.tokens, start=1):
        assert float(law[node].sum()) == pytest.approx(float(p_JV[0, token]))


def test_each_number_of_a_round_has_a_key_of_its_own():
    tree = ProposalTree((2, 0, 2, 2), (0, 0, 1, 2))
    accept, rest = tree_uniforms(1, 0, position=10, round_number=3, tree=tree)
    assert len(accept) == len(tree)
    assert len(rest) == len(tree) + 1
    assert len({*accept, *rest}) == 2 * len(tree) + 1
    assert tree_uniforms(1, 0, position=10, round_number=4, tree=tree)[0] != accept
