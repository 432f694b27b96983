"""Ended rounds as the draft saw them, kept for a calibration (option `observe`); off by default.

Must not know: models, channels, what the rounds are for. Tests: tests/engine/test_observing.py.
"""

from __future__ import annotations

from collections import deque

from saguaro.algorithm.rounds import EndedRound
from saguaro.engine.draft_row import DraftRow
from saguaro.protocol.messages import Decided

MOST_KEPT = 20_000
"""Rounds; older ones are dropped when nobody fetches them."""


class Observer:
    """Keeps `count` candidates of each position of every round; nothing with a count of 0."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._rounds: deque[EndedRound] = deque(maxlen=MOST_KEPT)

    def note(self, row: DraftRow, outcome: Decided) -> None:
        """A round has ended, and `row` still stands at its beginning."""
        if not self.count:
            return
        ranked = row.ranked[: len(row.proposal) + 1]
        self._rounds.append(
            EndedRound(
                request=row.request,
                number=outcome.round,
                after_hit=row.after_hit,
                sent=tuple(row.proposal),
                accepted=outcome.accepted,
                bonus=outcome.bonus,
                wanted=outcome.wanted,
                tokens=tuple(tuple(each.tokens[: self.count]) for each in ranked),
                scores=tuple(tuple(each.scores[: self.count]) for each in ranked),
            )
        )

    def take(self) -> list[EndedRound]:
        """The rounds since the last call."""
        rounds = list(self._rounds)
        self._rounds.clear()
        return rounds
