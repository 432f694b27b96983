"""Proposal trees on the target's side: what an accepted path leaves in the row's slots.

The nodes of a tree run in the slots behind the row's last token, one each. Those of the trunk stand where their
positions are; of any other accepted path keys and values are copied there, so that afterwards a row is as if a chain
had been accepted. Must not know: channels, the draft, clocks.
Tests: tests/engine/test_tree_rows.py, tests/lossless/test_trees.py.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

import torch

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
