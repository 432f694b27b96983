"""What the draft puts into the channel: branches as they grow, and the answer to an outcome that the target waits for.

Each token is published as soon as it is drawn, and with it its siblings where proposals may have any: the other guesses
for its place. Must not know: models, clocks, when something is due. Tests: tests/engine/test_draft.py,
tests/lossless/.
"""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.algorithm.odds import Guesses
from saguaro.algorithm.siblings import Sibling, siblings_of
from saguaro.engine.branch import Branch
from saguaro.engine.draft_beside import sprouts
from saguaro.engine.draft_forced import fill_forced
from saguaro.engine.draft_row import DraftRow
from saguaro.protocol.messages import FIRST_ENTRY, LAST, MISS_ANSWER, Configure
from saguaro.transport.base import DraftPort, Entry, Key

PENDING_INDEX = 0
"""Record of a row that holds the answer to a pending outcome; branches use 1, 2, ..."""


class Publisher:
    """The draft's end of the channel, under one set of settings."""

    def __init__(self, port: DraftPort, settings: Configure) -> None:
        self._port = port
        self._settings = settings

    def fill(self, row: DraftRow, branch: Branch | None = None) -> bool:
        """Tokens that a grammar makes certain take no pass; whether there were any."""
        if self._settings.rejection:  # a token that no pass has drawn has no law that could travel
            return False
        return fill_forced(row, self._settings.lookahead, branch)

    def branch(self, row: DraftRow, branch: Branch, *, fresh: bool) -> None:
        """A branch as it is; `fresh` when it was just opened."""
        siblings = self._siblings(row, branch.tokens, branch.ranked)
        entry = Entry(row.key(branch.accepted, branch.bonus), tuple(branch.tokens), FIRST_ENTRY, siblings=siblings)
        self._port.publish(row.row, branch.index, entry, fresh=fresh)

    def answer(self, row: DraftRow) -> None:
        """First answer to a pending outcome: what is there already, or (rejection) that there is nothing."""
        key = row.waiting
        assert key is not None
        if len(row.proposal) < row.wanted and not row.missing():
            self.give_up(row)  # a branch that could not go on
        elif row.proposal:
            self.proposal(row, key, first=True)
        elif self._settings.rejection:
            self._port.publish(row.row, PENDING_INDEX, Entry(key, (), MISS_ANSWER), fresh=True)

    def proposal(self, row: DraftRow, key: Key, *, first: bool = False) -> None:
        """The answer to a pending outcome, as deep as it is; only its last token is new unless it is the `first`."""
        if self._settings.rejection:
            start = 0 if first else len(row.proposal) - 1
            for depth in range(start, len(row.proposal)):
                self._port.publish_laws(row.row, depth, *row.laws[depth])
        fresh = first or len(row.proposal) == 1
        self._port.publish(row.row, PENDING_INDEX, self._answer_entry(row, key), fresh=fresh)

    def give_up(self, row: DraftRow) -> None:
        """Nothing that the draft's head knows may come, or there is no room: the target need not wait for more."""
        row.given_up = row.waiting
        if row.waiting is not None:
            entry = self._answer_entry(row, row.waiting, LAST)
            self._port.publish(row.row, PENDING_INDEX, entry, fresh=True)

    def _answer_entry(self, row: DraftRow, key: Key, more: int = 0) -> Entry:
        kind = FIRST_ENTRY if row.covered or not self._settings.rejection else MISS_ANSWER
        siblings = self._siblings(row, row.proposal, row.guessed)
        return Entry(key, tuple(row.proposal), kind | more, siblings=siblings)

    def _siblings(self, row: DraftRow, tokens: Sequence[int], guesses: Sequence[Guesses]) -> tuple[Sibling, ...]:
        """Those of a chain; a row with a grammar has none."""
        return siblings_of(tokens, guesses) if sprouts(self._settings) and row.grammar is None else ()
