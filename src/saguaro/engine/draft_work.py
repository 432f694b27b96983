"""What a pass of the draft runs: a piece of a row's tail, or the tokens of a branch that have not run yet.

A token of a branch sees the committed tokens and the first k of the proposal through the row's page table, then its own
branch through loose slots (DESIGN D7). Books only: no model, no channel, no clock. Tests: tests/engine/test_draft.py,
tests/engine/test_draft_work.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from saguaro.algorithm.odds import branches_worth_running
from saguaro.drafting.drawer import Due
from saguaro.engine.branch import Branch
from saguaro.engine.draft_row import DraftRow
from saguaro.execution.batch import Span
from saguaro.paging import PagePool
from saguaro.protocol.messages import Configure, Decided
from saguaro.theory.step_times import PassTimes


@dataclass(slots=True)
class Work:
    """One span of a step and whose it is: the tail of a row, or one of its branches.

    After it the row's text suggests `hint`, by a `match` of so many tokens. The last `hinted` tokens of a tail's span
    are hints; a span of a branch is its hint number `hinted`, after the first `before` tokens (`draft_hints.py`).
    """

    row: DraftRow
    branch: Branch | None
    span: Span
    hint: int = -1
    match: int = 0
    hinted: int = 0
    before: int = 0


def tail_work(row: DraftRow, settings: Configure, chunk: int) -> Work | None:
    """The tail tokens that are due, at most `chunk`; None when there are none, or no room for them."""
    tokens = row.due()
    if not tokens or not _tail_is_due(row, settings):
        return None
    tokens = tokens[:chunk]
    slots = row.prepare_tail(len(tokens))
    if slots is None:
        return None
    first_ranked = row.length - 1 + len(row.ranked)
    wanted = max(0, row.kv + len(tokens) - max(row.kv, first_ranked))
    return Work(row, None, Span(tokens, row.kv, row.table.pages, slots, wanted, taps=row.tapped(len(tokens))))


def _tail_is_due(row: DraftRow, settings: Configure) -> bool:
    """A proposal's last token runs only when somebody needs what follows it."""
    if row.waiting is not None:
        return settings.branches or len(row.proposal) < row.wanted or row.kv < row.length
    return settings.branches or row.kv < row.length or not row.caught_up


def branch_work(row: DraftRow, branch: Branch, pool: PagePool, *, spare: int) -> list[Work]:
    """The tokens of a branch that have not run: the last one drawn, and before it those that a grammar made certain.

    Logits are wanted after the last one. `spare` pages are left to the tails. A draft that goes on from its own states
    runs one at a time.
    """
    due = branch.due() if row.taps is None else branch.due()[:1]
    shared = row.length + branch.shared
    pages = row.table.pages[: pool.pages_for(shared)]
    taken: list[int] = []
    for _ in due:
        slot = loose_slot(row, pool, spare)
        if slot is None:
            row.reserve.give_back(taken)
            row.short = True
            return []
        taken.append(slot)
    own = [*branch.lead, *branch.slots, *taken]
    first = len(own) - len(taken)
    spans = [
        Span([token], shared + i, pages, [own[i]], 0, shared=shared, own=tuple(own[:i]))
        for i, token in enumerate(due, start=first)
    ]
    spans[-1].wanted = int(len(due) == len(branch.due()))
    return [Work(row, branch, span) for span in spans]


def loose_slot(row: DraftRow, pool: PagePool, spare: int) -> int | None:
    """A slot for a token of a branch. There are more when the pool has more than `spare` pages; the row's proposals
    shrink otherwise (DESIGN D5).
    """
    slot = row.reserve.take()
    if slot is None and pool.available > spare:
        row.reserve.grow_by_page()
        slot = row.reserve.take()
    return slot


def due_at(work: Work, position: int) -> Due | None:
    """What is drawn at a position that was run, if anything: each step of a branch gives a token, the tail only while
    the target waits for it.
    """
    row, branch = work.row, work.branch
    if row.tree is not None or (branch is not None and branch.probe):
        return None  # guesses are all that is wanted
    if branch is not None:
        return Due(len(branch.tokens) + work.hinted, row.round + 1, (branch.accepted, branch.bonus))
    depth, drawn = position - row.length, len(row.proposal)
    if row.waiting is None or not drawn <= depth <= drawn + work.hinted or depth >= row.wanted:
        return None
    return Due(depth, row.waiting.round + 1, row.drawn_for)


def outdated(work: Work, news: Decided | None) -> bool:
    """Whether an outcome has made a span of a step in flight pointless."""
    if news is None:
        return False
    if work.branch is not None:
        wanted = (news.accepted, work.branch.bonus if work.branch.probe else news.bonus)
        return (work.branch.accepted, work.branch.bonus) != wanted
    return work.span.start >= news.base + work.row.on_trunk(news.accepted)


def worth_running(
    offered: list[tuple[DraftRow, Branch]], work: list[Work], beside: PassTimes, alone: PassTimes
) -> list[tuple[DraftRow, Branch]]:
    """The offered branches that go into the pass beside the tails in `work`, likeliest first."""
    offered = sorted(offered, key=lambda pair: -pair[1].worth)
    count = branches_worth_running(
        [(branch.odds, branch.worth) for _, branch in offered],
        beside.seconds,
        (alone if alone.known() else beside).seconds,
        fixed_rows=sum(len(w.span.tokens) for w in work),
        fixed_worth=sum(w.row.all_accepted for w in work),
    )
    return offered[:count]
