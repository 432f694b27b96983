"""Tokens that a grammar makes certain: they join a branch, or the proposal that the target waits for, without a pass.

Books only: no model, no channel, no clock. Tests: tests/engine/test_draft_work.py,
tests/lossless/test_grammar.py.
"""

from __future__ import annotations

from saguaro.algorithm.odds import Guesses
from saguaro.engine.branch import Branch
from saguaro.engine.draft_row import DraftRow


def fill_forced(row: DraftRow, deepest: int, branch: Branch | None = None) -> bool:
    """Whether there were any such tokens.

    Args:
        row: any row; one without a grammar has none.
        deepest: tokens of a branch at most.
        branch: that they join; None for the proposal.
    """
    if row.grammar is None or (branch is None and row.waiting is None):
        return False
    if branch is None:
        found = row.grammar.forced(row.proposal, row.wanted - len(row.proposal))
        row.proposal += found
        return bool(found)
    most = min(deepest, row.max_positions - row.length - branch.before) - len(branch.tokens)
    found = row.grammar.forced(row.after(branch), most)
    branch.tokens += found
    branch.ranked += [Guesses([token], [1.0], [0.0]) for token in found]
    return bool(found)
