"""How much of a proposal tree is worth its time: whether to wait for the next level of one that the draft grows, which
nodes to verify, and which siblings of a chain.

The criterion is that of `algorithm/waiting.py`: a second is worth `rate` tokens. Must not know: channels, clocks.
Tests: tests/engine/test_tree_choice.py, tests/lossless/test_trees.py.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Rows
from itertools import accumulate

from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.siblings import Sibling, likeliest, with_siblings
from saguaro.algorithm.waiting import choose_depth
from saguaro.engine.answers import MEMORY, Mean
from saguaro.engine.metrics import PRIOR_WEIGHT, Estimates


class TreeChoice:
    """The choice by running estimates. `rows` run at once, and `others` are the tokens of all rows but one in the next
    verification, as far as one can know.
    """

    def __init__(self, estimates: Estimates) -> None:
        self._estimates = estimates
        self.rows, self.others = 1, 0
        self._found_beside = Mean()

    def suffices(self, tree: ProposalTree, reach: Rows[float], *, wanted: int, step_seconds: float) -> bool:
        """Whether a tree that may get more levels, up to `wanted`, is taken as it is. A pass of the draft takes
        `step_seconds` and serves all rows that wait.
        """
        nodes, seconds = self.others + len(tree), self._estimates.verify_seconds
        return not another_level_pays(
            tree,
            reach,
            acceptance=self._estimates.acceptance(wanted),
            step_seconds=step_seconds / self.rows,
            row_seconds=seconds(nodes + 2) - seconds(nodes + 1),
            rate=self._rate(),
        )

    def cut(self, tree: ProposalTree, reach: Rows[float], *, most: int, levels: int, prune: bool) -> ProposalTree:
        """What is verified: all that there is room for, or with `prune` as many nodes as pay (see `pruned`)."""

        def seconds(nodes: int) -> float:
            return self._estimates.verify_seconds(self.others + nodes + 1)

        verify_seconds = seconds if prune else None
        return pruned(tree, reach, most=most, levels=levels, verify_seconds=verify_seconds, rate=self._rate())

    def beside(
        self, tokens: tuple[int, ...], siblings: Rows[Sibling], *, most: int, prune: bool
    ) -> ProposalTree | None:
        """The chain with the likeliest of its siblings: as many as there is room for, or with `prune` as many as pay;
        None where that is none.

        The depth of the chain was chosen before, and does not look at what was drawn; siblings may.
        """
        ordered = likeliest(tokens, siblings)[: max(0, most)]
        if prune and ordered:
            gain, first = self._gain(), self.others + len(tokens) + 1
            expected = list(accumulate((gain * each.reach for each in ordered), initial=0.0))
            seconds = [self._estimates.verify_seconds(first + count) for count in range(len(ordered) + 1)]
            ordered = ordered[: choose_depth([0.0] * len(seconds), seconds, expected, self._rate())]
        return with_siblings(tokens, ordered) if ordered else None

    def ended_beside(self, found: bool) -> None:
        """A verification ended at a sibling, and the outcome was in the cache or not."""
        self._found_beside.add(found)

    def _gain(self) -> float:
        """Tokens that a sibling gives when it is accepted: one, less what later rounds lose where its outcome is less
        often in the cache. As a bonus token it is taken to be prepared for: the draft's likeliest guesses are.
        """
        seen = self._found_beside.count
        known = PRIOR_WEIGHT * self._estimates.hit_rate + min(seen, MEMORY) * self._found_beside.value
        found = known / (PRIOR_WEIGHT + min(seen, MEMORY))
        return 1.0 - self._estimates.answers.worth() * (1.0 - found)

    def _rate(self) -> float:
        """Tokens a second of the batch as it is now, in the long run."""
        width = 1 + self.others / (self.rows - 1) if self.rows > 1 else 1.0
        return self._estimates.rate(self.rows, width)


def another_level_pays(
    tree: ProposalTree,
    reach: Rows[float],
    *,
    acceptance: Rows[float],
    step_seconds: float,
    row_seconds: float,
    rate: float,
) -> bool:
    """Whether a tree that has grown so far is worth waiting for its next level.

    Args:
        tree: nodes of the levels that are there.
        reach: how likely each node is reached.
        acceptance: of each position given that all before it were accepted; as many levels as are wanted.
        step_seconds: of the draft's next pass.
        row_seconds: that a further node adds to the verification.
        rate: tokens a second in the long run.
    """
    levels = tree.levels
    if levels >= len(acceptance):
        return False
    deepest = sum(share for share, depth in zip(reach, tree.depths, strict=True) if depth == levels)
    return deepest * acceptance[levels] > rate * (step_seconds + row_seconds)


def pruned(
    tree: ProposalTree,
    reach: Rows[float],
    *,
    most: int,
    levels: int,
    verify_seconds: Callable[[int], float] | None = None,
    rate: float = 0.0,
) -> ProposalTree:
    """The part of a draft's tree that is verified, its trunk first.

    Args:
        tree: nodes in falling order of `reach`, so that the first so many are a tree.
        reach: how likely each node is reached, by the draft's odds.
        most: nodes that there is room for.
        levels: tokens of a path at most.
        verify_seconds: time of the verification by nodes of this tree; with it, only as many nodes as are worth their
            rows (the criterion of `algorithm/waiting.py`). None takes all.
        rate: tokens a second in the long run.
    """
    kept = [node for node, depth in enumerate(tree.depths, start=1) if depth <= levels][:most]
    number = {0: 0} | {node: i for i, node in enumerate(kept, start=1)}
    tree = ProposalTree(
        tuple(tree.tokens[node - 1] for node in kept), tuple(number[tree.parents[node - 1]] for node in kept)
    )
    if verify_seconds is not None:
        expected = list(accumulate((reach[node - 1] for node in kept), initial=1.0))
        seconds = [verify_seconds(count) for count in range(len(kept) + 1)]
        tree = tree.first(choose_depth([0.0] * len(seconds), seconds, expected, rate))
    return tree.trunk_first()
