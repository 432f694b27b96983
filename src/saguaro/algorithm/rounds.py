"""A round that has ended, as the draft saw it: what was sent, what came out, and the candidates that it had listed.

From these everything about the choice of outcomes can be computed again without a model (`simulate/`): under shared
noise, and at temperature 0, a branch and a neural fallback draw the same tokens, so that the rounds of a request do not
depend on what was prepared. Must not know: engines, files. Tests: tests/algorithm/test_rounds.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from saguaro.algorithm.odds import UNCALIBRATED, Calibration, Guesses, guess_odds

DIGITS = 4
"""Decimals of a score that are kept in a file."""


@dataclass(frozen=True, slots=True)
class EndedRound:
    """One round of one request.

    Args:
        request: whose it is.
        number: r; 0 is prefill, which has the outcome (0, first token).
        after_hit: whether its proposal came from the cache.
        sent: the d tokens that were verified.
        accepted, bonus: the outcome (k, t*).
        wanted: tokens that the next proposal could have; with 0 nothing could be a hit.
        tokens: candidates of positions 0 ... d (fewer when the draft had not come so far), best first; entry j is given
            the first j sent tokens.
        scores: the draft's scores of those candidates.
    """

    request: int
    number: int
    after_hit: bool
    sent: tuple[int, ...]
    accepted: int
    bonus: int
    wanted: int
    tokens: tuple[tuple[int, ...], ...]
    scores: tuple[tuple[float, ...], ...]

    @property
    def drawn(self) -> tuple[int, ...]:
        """The target's own tokens of positions 0 ... k: those of which candidates were listed after a right prefix."""
        return (*self.sent[: self.accepted], self.bonus)

    @property
    def whole(self) -> bool:
        """Whether all sent tokens were accepted, so that nothing is excluded."""
        return self.accepted == len(self.sent)

    def guesses(self, count: int, calibration: Calibration = UNCALIBRATED) -> list[Guesses]:
        """The candidates of each position as a draft that lists `count` of them has them."""
        return [
            Guesses(list(tokens[:count]), guess_odds(scores[:count], calibration) if scores else [], scores[:count])
            for tokens, scores in zip(self.tokens, self.scores, strict=True)
        ]

    def bonus_rank(self) -> int | None:
        """The rank of the bonus token among the candidates of its position without the sent one; None when it is not
        among them, or when none were listed.
        """
        if self.accepted >= len(self.tokens):
            return None
        excluded = None if self.whole else self.sent[self.accepted]
        allowed = [token for token in self.tokens[self.accepted] if token != excluded]
        return allowed.index(self.bonus) if self.bonus in allowed else None

    def cut(self, depth: int) -> EndedRound:
        """The round that a proposal of the first `depth` tokens would have been."""
        if depth >= len(self.sent):
            return self
        kept = min(self.accepted, depth)
        bonus = self.bonus if self.accepted <= depth else self.sent[depth]
        return replace(
            self,
            sent=self.sent[:depth],
            accepted=kept,
            bonus=bonus,
            tokens=self.tokens[: depth + 1],
            scores=self.scores[: depth + 1],
        )

    def plain(self) -> list[Any]:
        """As JSON can hold it."""
        scores = [[round(score, DIGITS) for score in row] for row in self.scores]
        own = (self.request, self.number, self.after_hit, list(self.sent), self.accepted, self.bonus, self.wanted)
        return [*own, [list(row) for row in self.tokens], scores]


def from_plain(values: Sequence[Any]) -> EndedRound:
    """The round of what `EndedRound.plain` gave."""
    request, number, after_hit, sent, accepted, bonus, wanted, tokens, scores = values
    rows, numbers = tuple(map(tuple, tokens)), tuple(map(tuple, scores))
    return EndedRound(request, number, after_hit, tuple(sent), accepted, bonus, wanted, rows, numbers)
