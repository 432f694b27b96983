"""Hints: what a row's own text suggests to come next runs in the same pass as the token before it.

A pass of the draft reads all weights for a few rows, so that one row more costs little, and texts repeat themselves.
If the token that the pass draws is the hint, the pass has drawn the token after it too; if not, what the hint's row
gave is thrown away. So tokens are the same with hints and without them, and there are fewer passes. It is speculative
decoding once more, of the draft by `algorithm/suffix_index.py`; the paper has none of it (docs/how-it-works.md).

A hint runs where the pass that it is likely to save takes longer than its row (`algorithm/hints.py`). Over loopback a
fixed share stands for a row's time: there the order of things must not depend on a clock. Books only: no model, no
channel, no clock. Tests: tests/engine/test_draft_hints.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from saguaro.algorithm.hints import LATEST, MOST, HintOdds
from saguaro.algorithm.suffix_index import LONGEST_SUFFIX
from saguaro.engine.draft_row import DraftRow
from saguaro.engine.draft_work import Work, loose_slot
from saguaro.paging import PagePool
from saguaro.theory.step_times import PassTimes


class Hints:
    """Suggestions for the paths of a pass, and how good they have been: `right` of those that were `run`.

    `tokens_a_pass` is how many tokens a pass gives lately to a row that the target waits for.
    """

    def __init__(self) -> None:
        self.odds = HintOdds()
        self.run = self.right = 0
        self.tokens_a_pass = 1.0
        self._latest = 1

    def look(self, row: DraftRow, path: Sequence[int], most: int) -> tuple[int, tuple[int, ...]]:
        """Size of the match, and up to `most` tokens that have followed the like of `path` in the row's text.

        Args:
            row: its committed tokens are the text.
            path: tokens after the committed ones.
            most: at least 1.
        """
        row.text.extend(row.tokens[len(row.text) :])
        suffix = [*row.tokens[-LONGEST_SUFFIX:], *path][-LONGEST_SUFFIX:]
        match = row.text.longest(suffix)
        return match.size, row.text.following(match.place, most) if match.size else ()

    def hold(self, w: Work, position: int) -> bool:
        """Whether what a pass gave for `position` follows the tokens that were drawn: always, unless it ran on hints.
        What a right hint ran is the row's from now on.

        Args:
            w: a span, of which logits were wanted for `position`.
            position: of the token that the logits are of.
        """
        place = place_of(w, position)
        if place == 0:
            return True
        if not _came_true(w, position):
            if w.branch is not None:
                w.row.reserve.give_back(list(w.span.slots))
            return False
        self.right += 1
        if w.branch is not None:
            w.branch.slots.append(w.span.slots[0])
        else:
            w.row.ran(1)
        return True

    def learn(self, w: Work, position: int) -> None:
        """A token may have been drawn for `position`; say whether it was the hint that there was."""
        place, hint = place_of(w, position), w.hint
        if w.branch is None:
            drawn, index = w.row.proposal, position - w.row.length
            if place < w.hinted:
                hint = w.span.tokens[position - w.span.start]
            elif place:
                hint = -1
        else:
            drawn, index = w.branch.tokens, w.before + place
        if not 0 <= index < len(drawn):
            return
        if w.branch is None:
            self._count_pass(place)
        if hint >= 0:
            self.odds.saw(w.match + place, right=drawn[index] == hint)

    def _count_pass(self, place: int) -> None:
        """A tail that is waited for has one token more: the first of a pass, or one after hints."""
        if place:
            self._latest += 1
            return
        self.tokens_a_pass += LATEST * (self._latest - self.tokens_a_pass)
        self._latest = 1


def hintable(row: DraftRow) -> bool:
    """Whether hints can run for a row: its tokens depend on nothing but the tokens before them."""
    return row.tree is None and row.taps is None and row.grammar is None and not row.admit.sampling.edited


def add_hints(
    hints: Hints, work: list[Work], pool: PagePool, deepest: int, *, spare: int, times: PassTimes | None
) -> None:
    """Let hints run beside what is in `work`: those after a tail that the target waits for join its span, those after a
    branch come behind its spans.

    Args:
        hints: of this draft.
        work: of the pass; it grows.
        pool: of pages.
        deepest: tokens of a proposal.
        spare: pages that are left to the tails.
        times: of such passes; None over loopback.
    """
    rows = sum(len(w.span.tokens) for w in work)
    seconds = times.seconds if times is not None and times.known() else None
    for w in list(work):
        if not w.span.wanted or not hintable(w.row) or (w.branch is not None and w.branch.probe):
            continue
        most = _room_of_tail(w, deepest) if w.branch is None else deepest - len(w.branch.tokens) - 1
        if most < 1:
            continue
        path = w.row.proposal if w.branch is None else w.row.after(w.branch)
        w.match, tokens = hints.look(w.row, path, min(most, MOST))
        if not tokens:
            continue
        w.hint = tokens[0]
        w.before = 0 if w.branch is None else len(w.branch.tokens)
        worth = 1.0 if w.branch is None else w.branch.worth
        tokens = tokens[: hints.odds.worthwhile(w.match, worth, rows, seconds)]
        if not tokens:
            continue
        count = _extend_tail(w, tokens) if w.branch is None else _extend_branch(work, w, tokens, pool, spare)
        hints.run += count
        rows += count


def _room_of_tail(w: Work, deepest: int) -> int:
    """Tokens that may follow the one which a span of a tail draws; none where it draws none."""
    row, end = w.row, w.span.start + len(w.span.tokens)
    if row.waiting is None or end != row.length + len(row.proposal):
        return 0
    return min(row.wanted - len(row.proposal) - 1, row.max_positions - end - 1, deepest)


def _extend_tail(w: Work, tokens: Sequence[int]) -> int:
    """Hints join the span of a tail, as far as its pages reach; returns how many."""
    row, end = w.row, w.span.start + len(w.span.tokens)
    reach = len(row.table.pages) * row.cache.pool.page_size
    tokens = tokens[: max(0, reach - end)]
    slots = [*w.span.slots, *row.table.slots(end, end + len(tokens))]
    w.span = replace(w.span, tokens=[*w.span.tokens, *tokens], slots=slots, wanted=w.span.wanted + len(tokens))
    w.hinted = len(tokens)
    return len(tokens)


def _extend_branch(work: list[Work], w: Work, tokens: Sequence[int], pool: PagePool, spare: int) -> int:
    """Hints come behind the last span of a branch, as far as there are slots; returns how many."""
    branch, last = w.branch, w.span
    assert branch is not None
    own = [*last.own, *last.slots]
    for count, token in enumerate(tokens):
        slot = loose_slot(w.row, pool, spare)
        if slot is None:
            return count
        span = replace(last, tokens=[token], start=last.start + count + 1, slots=[slot], wanted=1, own=tuple(own))
        after = tokens[count + 1] if count + 1 < len(tokens) else -1
        work.append(Work(w.row, branch, span, after, w.match, hinted=count + 1, before=w.before))
        own.append(slot)
    return len(tokens)


def place_of(w: Work, position: int) -> int:
    """How many hints stand before `position`: 0 for what follows tokens that were drawn or committed."""
    if w.branch is not None:
        return w.hinted
    return max(0, position - (w.span.start + len(w.span.tokens) - w.hinted))


def _came_true(w: Work, position: int) -> bool:
    """Whether the hint that `position` follows is the token that was drawn there."""
    if w.branch is not None:
        drawn, index = w.branch.tokens, w.before + w.hinted - 1
    else:
        drawn, index = w.row.proposal, position - 1 - w.row.length
    return index < len(drawn) and drawn[index] == w.span.tokens[position - 1 - w.span.start]
