"""Verification of a proposal tree: by shared noise a walk, by rejection one sibling after another.

`shared_noise`: the target has drawn its own token after every node; the walk goes to the child that has it. That is the
coupling of a chain with more guesses, so the output is the target's own for every tree, however it was made.

`rejection`: the children of a node were drawn one after another from q without replacement. The first is accepted with
min(1, p/q) as in a chain; after a rejection the next one meets the residual law in place of p, and q without the token
that has failed; when all have failed the bonus token comes from the residual law that is left. Children that were
certain, given what precedes them, are point masses: together they are accepted as often as p names one of them. How
many children a node has may depend on what precedes it, never on their own draw. Of a chain with siblings the first
child alone was drawn (`first_only`); its siblings are chosen by what was drawn, and are point masses then: they meet
what is left of p once the first child has failed, which is the same law whatever that child was.

An outcome names the node where the walk ended (0: the root) and the bonus token after it. Rows: row 0 of `p_JV` is the
law after the root, row i that after node i; V vocabulary.
Must not know: caches, drafts, where the uniforms come from.
Tests: tests/algorithm/test_verify_tree.py, tests/algorithm/test_lossless_trees.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.sampling import draw_from_law, uniform
from saguaro.algorithm.terms import Outcome
from saguaro.algorithm.verify import acceptance, is_accepted, residual

Laws = Mapping[int, torch.Tensor]
"""By node, the law (V) that its children were drawn from, without replacement."""


def verify_tree_shared_noise(target_tokens: Sequence[int], tree: ProposalTree) -> Outcome:
    """Go to the child that has the target's own token, until there is none.

    Args:
        target_tokens: the target's own draw after the root (entry 0) and after each node.
        tree: the proposal.
    """
    child = {(parent, token): i for i, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True), 1)}
    node = 0
    while (found := child.get((node, target_tokens[node]))) is not None:
        node = found
    return Outcome(node, target_tokens[node])


def verify_tree_rejection(
    p_JV: torch.Tensor,
    tree: ProposalTree,
    laws: Laws | None = None,
    *,
    accept_uniforms: Sequence[float],
    residual_uniforms: Sequence[float],
    first_only: bool = False,
) -> Outcome:
    """Try the children of each node in their order, go to the first that is accepted, else draw the bonus token.

    Args:
        p_JV: the target's law after the root and after each node.
        tree: the proposal.
        laws: what the children were drawn from; None where all were certain, given what precedes them.
        accept_uniforms: a number in (0, 1) for each node.
        residual_uniforms: a number in (0, 1) for the root and each node: that of the node where the walk ends is used.
        first_only: only the first child of a node was drawn from its law; the others are certain, given all draws.
    """
    node = 0
    while True:
        rest_V, q_V = p_JV[node], None if laws is None else laws.get(node)
        for child in tree.children[node]:
            token = tree.tokens[child - 1]
            p, q = float(rest_V[token]), 1.0 if q_V is None else float(q_V[token])
            if is_accepted(p, q, uniform=accept_uniforms[child - 1]):
                node = child
                break
            rest_V, q_V = after_rejection(rest_V, q_V, token)
            q_V = None if first_only else q_V
        else:
            return Outcome(node, draw_from_law(rest_V[None], [residual_uniforms[node]])[0])


def tree_outcome_law(
    p_JV: torch.Tensor, tree: ProposalTree, laws: Laws | None = None, *, first_only: bool = False
) -> torch.Tensor:
    """The law of the outcome given the tree: entry (node, t) is P(the walk ends at node, bonus t); (N + 1, V).

    What `verify_tree_rejection` does, summed over its uniforms; used to enumerate.
    """
    law_JV = torch.zeros_like(p_JV)
    reach_J = torch.zeros_like(p_JV[:, 0])
    reach_J[0] = 1
    for node, children in enumerate(tree.children):  # parents come first, so that `reach_J[node]` is known
        rest_V, q_V, left = p_JV[node], None if laws is None else laws.get(node), reach_J[node]
        for child in children:
            token = tree.tokens[child - 1]
            q = torch.ones_like(left) if q_V is None else q_V[token]
            accepted = acceptance(rest_V[token], q)
            reach_J[child] = left * accepted
            left = left * (1 - accepted)
            rest_V, q_V = after_rejection(rest_V, q_V, token)
            q_V = None if first_only else q_V
        law_JV[node] = left * rest_V
    return law_JV


def after_rejection(
    rest_V: torch.Tensor, q_V: torch.Tensor | None, token: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What the next sibling meets once `token` was rejected: the residual law, and q without the token.

    Without a law the token was certain.
    """
    if q_V is None:
        only_V = torch.zeros_like(rest_V)
        only_V[token] = 1
        return residual(rest_V, only_V), None
    return residual(rest_V, q_V), without(q_V, token)


def without(q_V: torch.Tensor, token: int) -> torch.Tensor:
    """The law of the next draw without replacement: q on all other tokens, normalised; zeros when none is left."""
    left_V = q_V.clone()
    left_V[token] = 0
    mass = left_V.sum()
    return left_V / mass if mass > 0 else left_V


def draw_children(q_V: torch.Tensor, uniforms: Sequence[float]) -> tuple[int, ...]:
    """Tokens drawn from q without replacement, one for each number in (0, 1); fewer where q has fewer tokens."""
    tokens: list[int] = []
    for number in uniforms:
        if not bool(q_V.sum() > 0):
            break
        tokens += draw_from_law(q_V[None], [number])
        q_V = without(q_V, tokens[-1])
    return tuple(tokens)


def tree_uniforms(
    seed: int, choice: int, *, position: int, round_number: int, tree: ProposalTree
) -> tuple[list[float], list[float]]:
    """The numbers that `verify_tree_rejection` takes for one round of one row, each with a key of its own.

    Args:
        seed: the request's key.
        choice: index of the choice.
        position: absolute position of the first tokens after the root.
        round_number: number of this verification.
        tree: the proposal.

    Returns:
        A number for each node, and one for the root and each node.
    """

    def number(node: int, token: int, depth: int, *, accept: bool) -> float:
        return uniform(
            seed,
            choice,
            position=position + depth,
            round_number=round_number,
            branch=(node, token),
            purpose="accept" if accept else "residual",
        )

    nodes = list(enumerate(zip(tree.tokens, tree.depths, strict=True), start=1))
    accept = [number(node, token, depth - 1, accept=True) for node, (token, depth) in nodes]
    rest = [number(node, token, depth, accept=False) for node, (token, depth) in nodes]
    return accept, [number(0, 0, 0, accept=False), *rest]
