"""Chains against proposal trees when drafting and verifying take turns: which gives most tokens a second.

What is known of a draft is how often the target's token is its first, second, third, ... guess. Then the tree of N
nodes with the most expected tokens is known before anything is drafted (the static trees of Sequoia); the dynamic tree
of a round (`algorithm/proposal_tree.py`) knows the odds of that round, so that its promise here is a lower bound. A
tree pays its nodes as rows of the verification, and a pass of the draft for each of its levels, with a row for each
node of the level above that has children. Times are seconds.
Must not know: torch, engines, who measured. Tests: tests/theory/test_tree_rates.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from saguaro.theory.rates import MAX_PLANNED_LOOKAHEAD, StepTimes
from saguaro.theory.step_times import time_for

PLANNED_NODES = (2, 3, 4, 5, 6, 7, 9, 11, 15, 23)


@dataclass(frozen=True)
class TreeShape:
    """A tree by its levels: the nodes of each, and how many of each have children; E of its tokens, bonus included."""

    nodes: tuple[int, ...]
    inner: tuple[int, ...]
    expected: float

    @property
    def size(self) -> int:
        """Nodes in all."""
        return sum(self.nodes)

    @property
    def levels(self) -> int:
        """Tokens of the longest path."""
        return len(self.nodes)


def best_shape(odds_by_rank: Sequence[float], *, nodes: int, levels: int) -> TreeShape:
    """The tree with the greatest expected number of accepted tokens among those of at most `nodes` and `levels`.

    Args:
        odds_by_rank: how often the target's token is the draft's first guess, its second, ...; not rising.
        nodes: at most; ties leave nodes out only where their odds are 0.
        levels: at most.
    """
    heap = [(-odds_by_rank[0], 1, 0, 0)] if odds_by_rank and levels else []  # -reach, depth, rank, parent
    reach, depths, parents = [1.0], [0], [-1]
    while heap and len(reach) <= nodes:
        minus, depth, rank, parent = heapq.heappop(heap)
        if minus == 0:
            break
        number = len(reach)
        reach.append(-minus)
        depths.append(depth)
        parents.append(parent)
        if rank + 1 < len(odds_by_rank):
            heapq.heappush(heap, (-reach[parent] * odds_by_rank[rank + 1], depth, rank + 1, parent))
        if depth < levels:
            heapq.heappush(heap, (minus * odds_by_rank[0], depth + 1, 0, number))
    with_children = {parent for parent in parents if parent > 0}
    deepest = max(depths)
    return TreeShape(
        tuple(sum(depth == level for depth in depths) for level in range(1, deepest + 1)),
        tuple(sum(depths[node] == level for node in with_children) for level in range(1, deepest + 1)),
        sum(reach),
    )


def shape_rate(times: StepTimes, shape: TreeShape, *, rows: int = 1) -> float:
    """Tokens a second of `rows` requests whose proposals all have this shape.

    The first level takes a pass of one row, each further one a pass of the nodes above it that have children.
    """
    seconds = time_for(times.verify_alone, rows * (shape.size + 1))
    if shape.levels:
        widths = (1, *shape.inner[: shape.levels - 1])
        seconds += sum(time_for(times.step_alone, rows * width) for width in widths)
    return rows * shape.expected / seconds


class ProposalChoice(NamedTuple):
    """The shape of proposals that promises most tokens a second; a chain where `nodes` equals `levels`."""

    nodes: int
    levels: int
    rate: float

    @property
    def is_chain(self) -> bool:
        """Whether no node has a sibling."""
        return self.nodes == self.levels


def best_chain(times: StepTimes, odds_by_rank: Sequence[float], *, rows: int = 1) -> ProposalChoice:
    """The best lookahead of a chain, 1 ... `MAX_PLANNED_LOOKAHEAD`; ties go to the smaller."""
    lookaheads = range(1, MAX_PLANNED_LOOKAHEAD + 1)
    return _best([best_shape(odds_by_rank[:1], nodes=k, levels=k) for k in lookaheads], times, rows)


def best_proposal(
    times: StepTimes,
    odds_by_rank: Sequence[float],
    *,
    nodes: Sequence[int] = PLANNED_NODES,
    rows: int = 1,
) -> ProposalChoice:
    """The best chain or tree by measured times; a tree must promise more than the best chain.

    Args:
        times: of the passes; drafting and verifying take turns, so those `alone` count.
        odds_by_rank: how often the target's token is the draft's first guess, its second, ...
        nodes: sizes of trees that are looked at.
        rows: requests that run at once.
    """
    chain = best_chain(times, odds_by_rank, rows=rows)
    shapes = [
        best_shape(odds_by_rank, nodes=count, levels=levels)
        for count in nodes
        for levels in range(1, MAX_PLANNED_LOOKAHEAD + 1)
    ]
    tree = _best([shape for shape in shapes if shape.size > shape.levels], times, rows)
    return tree if tree.rate > chain.rate else chain


def _best(shapes: Sequence[TreeShape], times: StepTimes, rows: int) -> ProposalChoice:
    best = ProposalChoice(0, 0, 0.0)
    for shape in shapes:
        rate = shape_rate(times, shape, rows=rows)
        if rate > best.rate:
            best = ProposalChoice(shape.size, shape.levels, rate)
    return best
