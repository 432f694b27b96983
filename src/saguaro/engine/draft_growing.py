"""How the draft grows a proposal tree while the target waits: a pass runs all nodes of a level that may have children.

A node runs like a token of a branch (`draft_work.py`): it sees the committed tokens through the row's page table and
its path through loose slots. Must not know: models, clocks. Tests: tests/engine/test_draft_tree.py,
tests/lossless/test_trees.py.
"""

from __future__ import annotations

from saguaro.algorithm.odds import Guesses, rows_worth_running
from saguaro.algorithm.proposal_tree import GrowingTree
from saguaro.engine.branch import Branch
from saguaro.engine.draft_row import DraftRow
from saguaro.engine.draft_tree import RowTree
from saguaro.engine.draft_work import Work, branch_work
from saguaro.paging import PagePool
from saguaro.protocol.messages import FIRST_ENTRY, LAST, MISS_ANSWER, Configure
from saguaro.theory.step_times import PassTimes
from saguaro.transport.base import DraftPort, Entry

SIBLINGS = 8
"""Children of a node that are looked at."""


def siblings(settings: Configure) -> int:
    """Guesses of a position that a tree may take which is grown."""
    return 0 if settings.branches else min(settings.tree, SIBLINGS)


def plant(row: DraftRow, settings: Configure) -> None:
    """The target waits for a proposal: let it be a tree, if it may be one. A row with a grammar gets chains, as do rows
    for which branches are prepared.
    """
    if settings.tree and row.waiting is not None and row.grammar is None and not settings.branches:
        row.tree = RowTree(GrowingTree(settings.tree, row.wanted))


def tree_work(row: DraftRow, pool: PagePool, settings: Configure, *, spare: int, times: PassTimes) -> list[Work]:
    """The nodes of a row's tree that run next: those among the best whose children are wanted.

    Args:
        row: any row.
        pool: of the draft's pages.
        settings: with `prune` only nodes run that are worth their time; the others stay without children.
        spare: pages that are left to the tails.
        times: of passes while the target waits.
    """
    tree = row.tree
    if tree is None or tree.sent or row.waiting is None:
        return []
    due = tree.growing.frontier()
    if settings.prune and times.known():
        count = rows_worth_running([tree.growing.reach[node] for node in due], times.seconds)
        for node in due[count:]:
            tree.growing.close(node)
        due = due[:count]
    work: list[Work] = []
    for node in due:
        tokens, slots = tree.path(node)
        branch = Branch(0, tokens[0], index=node, tokens=tokens[1:], slots=slots)
        fits = row.length + len(tokens) <= row.max_positions
        spans = branch_work(row, branch, pool, spare=spare) if fits else []
        if not spans:
            tree.growing.close(node)
        work += spans
    return work


def learn(row: DraftRow, branch: Branch | None, guesses: Guesses) -> None:
    """A node of a row's tree ran, or its tail did (None): these tokens may follow."""
    assert row.tree is not None
    if branch is None:
        row.ranked.append(guesses)
        row.tree.learn(0, guesses)
    else:
        row.tree.slots[branch.index] = branch.slots[-1]
        row.tree.learn(branch.index, guesses)


def send_tree(port: DraftPort, row: DraftRow, index: int, settings: Configure) -> None:
    """Give the target the tree once it is whole; with `prune` after every level, since it may not want the next one.
    Without a node, the word that there is nothing.
    """
    if row.tree is None or row.waiting is None or not row.tree.rooted or row.tree.sent:
        return
    row.tree.sent = row.tree.whole
    if not row.tree.sent and not settings.prune:
        return
    kind = MISS_ANSWER if settings.rejection else FIRST_ENTRY
    tree, reach = row.tree.growing.tree()
    entry = Entry(row.waiting, tree.tokens, kind if len(tree) else kind | LAST, tree.parents, reach)
    port.publish(row.row, index, entry, fresh=True)
