"""A chain with siblings under verification: what the draft knows of its nodes beside the trunk.

A node beside the trunk runs once, like the first token of a branch that starts at its parent: then the draft knows what
may follow it, and outcomes that end there can be prepared for. The branch of such an outcome sees the node through a
loose slot. Where no siblings stand beside it, the token of the node would be the bonus token of a branch, with the same
pass and the same slot: siblings move work, they do not add any. Books only: no model, no channel, no clock.
Tests: tests/engine/test_draft_beside.py, tests/lossless/test_ssd_trees.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.algorithm.odds import Guesses
from saguaro.algorithm.siblings import EACH, reach_of
from saguaro.engine.branch import Branch
from saguaro.engine.draft_row import DraftRow
from saguaro.protocol.messages import Configure


def sprouts(settings: Configure) -> bool:
    """Whether chains have siblings."""
    return bool(settings.tree) and settings.branches


def listed(settings: Configure, needed: int) -> int:
    """Guesses of a position where branches need so many: those that are children of a node start no branch."""
    return needed + EACH if sprouts(settings) else needed


def known_guesses(row: DraftRow, on_trunk: Sequence[Guesses]) -> dict[int, Guesses]:
    """What may follow each node, as far as it is known. `on_trunk`: after the root and nodes of the trunk."""
    found = dict(enumerate(on_trunk))
    return found | {node: probe.ranked[0] for node, probe in row.beside.items() if probe.ranked}


def look_beside(row: DraftRow, on_trunk: Sequence[Guesses]) -> None:
    """Nodes beside the trunk whose way is known run from now on. `on_trunk` as in `known_guesses`."""
    if row.shape is None or not on_trunk or len(row.beside) == len(row.shape) - row.shape.trunk:
        return
    guesses = known_guesses(row, on_trunk)
    for node in range(row.shape.trunk + 1, len(row.shape) + 1):
        parent = row.shape.parents[node - 1]
        if node in row.beside or parent not in guesses:
            continue
        reach = reach_of(row.shape, guesses, node)
        probe = Branch(node, row.shape.tokens[node - 1], 0, odds=reach, worth=reach, probe=True)
        start_after(row, parent, probe)
        row.beside[node] = probe


def start_after(row: DraftRow, node: int, branch: Branch) -> None:
    """Let a branch begin after a node: say what it sees between the committed tokens and its own."""
    if row.shape is None:
        return
    path, along = row.shape.path(node), row.shape.along(node)
    branch.shared = along
    branch.path = tuple(row.shape.tokens[each - 1] for each in path[along:])
    branch.lead = tuple(row.beside[each].slots[0] for each in path[along:])


def learn_beside(probe: Branch, guesses: Guesses) -> None:
    """A node beside the trunk ran: these tokens may follow."""
    probe.ranked.append(guesses)
    probe.ended = True


def positions_chosen(row: DraftRow, on_trunk: int) -> int:
    """For how many nodes 0, 1, ... outcomes have been chosen, when guesses of so many nodes of the trunk are known."""
    if row.shape is None or on_trunk <= row.shape.trunk:
        return on_trunk
    node = on_trunk
    while node in row.beside and row.beside[node].ranked:
        node += 1
    return node
