"""Chains with siblings: proposal trees that cost no pass of the draft, and the outcomes that they may have (App. E).

    root ── x1 ── x2 ── x3        the chain is the trunk: nodes 1 ... d
      │      └─ b                 siblings: other guesses of the draft for a place of the chain, nodes d + 1 ...
      └─ a                        they have no children

Each token of a chain was taken from ranked guesses, so its siblings are known with it. Verification may end at any
node: at one of the trunk, with a bonus token that is none of its children, or at a sibling. Outcomes name the node, so
that all of this is what Section 4.1 says of a chain, with nodes in place of numbers of accepted tokens.
Must not know: models, channels, where the tokens came from. Tests: tests/algorithm/test_siblings.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from saguaro.algorithm.odds import Guesses, guess_odds
from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.terms import Outcome

EACH = 2
"""Siblings of a token that are looked at: third and later ones are right in about one place of a hundred."""
MAX_SIBLINGS = 32
"""Of a chain, together."""


class Sibling(NamedTuple):
    """Another guess for a place of a chain: the node before it (0: the root, i: token i of the chain), the token, and
    how likely the verification ends up there.
    """

    parent: int
    token: int
    reach: float


def siblings_of(tokens: Sequence[int], guesses: Sequence[Guesses], each: int = EACH) -> tuple[Sibling, ...]:
    """The siblings of a chain, first places first: what it has is not changed by a longer chain.

    Args:
        tokens: the chain.
        guesses: those that each token was taken from, as far as they are known.
        each: siblings of a token at most.
    """
    found: list[Sibling] = []
    reached = 1.0
    for place, (token, here) in enumerate(zip(tokens, guesses, strict=False)):
        others = [(other, share) for other, share in zip(here.tokens, here.odds, strict=True) if other != token]
        found += [Sibling(place, other, reached * min(1.0, share)) for other, share in others[:each]]
        reached *= min(1.0, here.of(token))
    return tuple(found[:MAX_SIBLINGS])


def likeliest(tokens: Sequence[int], siblings: Iterable[Sibling]) -> list[Sibling]:
    """Those that can stand beside a chain, each token once, the likeliest first."""
    taken = set(enumerate(tokens))
    found: list[Sibling] = []
    for each in sorted(siblings, key=lambda sibling: (-sibling.reach, sibling.parent)):
        if 0 <= each.parent < len(tokens) and (each.parent, each.token) not in taken:
            taken.add((each.parent, each.token))
            found.append(each)
    return found


def with_siblings(tokens: Sequence[int], siblings: Sequence[Sibling]) -> ProposalTree:
    """The chain as trunk, and the siblings after it."""
    return ProposalTree(
        (*tokens, *(each.token for each in siblings)), (*range(len(tokens)), *(each.parent for each in siblings))
    )


def chain_outcome(tree: ProposalTree, outcome: Outcome) -> Outcome:
    """What the outcome would have been without the nodes beside the trunk: the first of them on the path is then the
    bonus token.
    """
    path, along = tree.path(outcome.accepted), tree.along(outcome.accepted)
    return outcome if along == len(path) else Outcome(along, tree.tokens[path[along] - 1])


# -- which outcomes to prepare -----------------------------------------------------------------------------------------


def reach_of(tree: ProposalTree, guesses: Mapping[int, Guesses], node: int) -> float:
    """How likely a node is reached: the odds of all tokens on its path, by the guesses after each node."""
    path = tree.path(node)
    return math.prod(guesses[before].of(tree.tokens[each - 1]) for before, each in zip((0, *path), path, strict=False))


def tree_outcomes(
    guesses: Mapping[int, Guesses], tree: ProposalTree, count: Callable[[int], int]
) -> list[tuple[float, Outcome]]:
    """The outcomes (node, bonus token) with their odds, likeliest first.

    The bonus token after a node is none of its children: the walk would have gone on to that one.

    Args:
        guesses: after each node (0: the root) that the draft knows them of; known of all nodes on the way to it, too.
        tree: under verification.
        count: outcomes of a node at most.
    """
    found: list[tuple[float, Outcome]] = []
    for node, here in guesses.items():
        reached, children = reach_of(tree, guesses, node), {tree.tokens[child - 1] for child in tree.children[node]}
        free = [(token, share) for token, share in zip(here.tokens, here.odds, strict=True) if token not in children]
        found += [(reached * share, Outcome(node, token)) for token, share in free[: count(node)]]
    return sorted(found, key=lambda pair: (-pair[0], pair[1]))


def best_tree_outcomes(guesses: Mapping[int, Guesses], tree: ProposalTree, budget: int) -> list[tuple[float, Outcome]]:
    """The `budget` likeliest outcomes of all, likeliest first; `odds.best_outcomes` for a tree.

    Places are kept for nodes whose guesses are still to come, as if they had the odds of an average position.
    """
    every = tree_outcomes(guesses, tree, lambda _: budget)
    places = budget
    for node, parent in enumerate(tree.parents, start=1):
        if node in guesses or parent not in guesses:
            continue
        reached = reach_of(tree, guesses, node)
        to_come = [reached * share for share in guess_odds([0.0, -2.0, -3.0])]
        places -= sum(1 for odds in to_come if sum(1 for other, _ in every if other > odds) < budget)
    return every[: max(0, places)]
