"""Proposal trees on the target's side: how many of the draft's nodes are verified, and what an accepted path leaves.

The nodes of a tree run in the slots behind the row's last token, one each. Those of the trunk stand where their
positions are; of any other accepted path keys and values are copied there, so that afterwards a row is as if a chain
had been accepted. Must not know: channels, the draft, clocks.
Tests: tests/engine/test_tree_rows.py, tests/lossless/test_trees.py.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Rows
from itertools import accumulate

import torch

from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.waiting import choose_depth
from saguaro.engine.sequence import Proposed, Sequence
from saguaro.execution.kv_pool import KVPool


def put_in_order(pool: KVPool, rows: Rows[Sequence]) -> None:
    """Copy keys and values of accepted paths to their positions. Before anything is committed: the rows still stand at
    the round's beginning.
    """
    sources: list[int] = []
    targets: list[int] = []
    for s in rows:
        if s.proposed.tree is None:
            continue
        start = len(s.tokens)
        for place, node in enumerate(s.proposed.tree.path(s.proposed.node)):
            if node != place + 1:
                sources.append(s.table.slot(start + node - 1))
                targets.append(s.table.slot(start + place))
    pool.move(sources, targets)


def rows_of(proposed: Proposed, logits_JV: torch.Tensor) -> torch.Tensor:
    """The logits of a round's tokens, in their order: those after the last token and after each token of the path."""
    if proposed.tree is None:
        return logits_JV
    return logits_JV[[0, *proposed.tree.path(proposed.node)]]


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
