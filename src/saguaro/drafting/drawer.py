"""How a draft ranks and draws: under shared noise as the target will, under rejection from a law that travels.

`shared_noise`: the candidates of a position are ranked by noisy score; the first is the draft's token, the others are
its guesses of the bonus token (DESIGN D1, Section 4.1). `rejection`: candidates are ranked by logit; the token is
drawn from the processed law, with the top F_k scaled by C when Saguaro sampling is on (Section 4.2), with a number
keyed by position, round and branch and used for nothing else. Where the drafter knows some tokens only, rows stay as
narrow as it gives them, and `ids` says which token a column is (int32). Must not know: rows, channels, clocks. Tests:
tests/lossless/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from saguaro.algorithm import saguaro_sampling, sampling
from saguaro.algorithm.odds import UNCALIBRATED, Calibration, Guesses, candidates_listed, guess_odds
from saguaro.algorithm.options import Sampling
from saguaro.execution.sampler import Draw, laws, top_candidates
from saguaro.protocol.messages import Configure

GREEDY = Sampling(temperature=0.0)


class Due(NamedTuple):
    """A token to be drawn: its place in its proposal, the round that would verify it, and the outcome that it is
    prepared for (None: the neural fallback).
    """

    depth: int
    round: int
    branch: tuple[int, int] | None


class Law(NamedTuple):
    """The law q of one drawn token under `rejection`: float32, over `ids_S` or over 0, 1, ... (None)."""

    values_S: torch.Tensor
    ids_S: torch.Tensor | None


class Drawer:
    """Ranks and draws under one set of settings.

    Args:
        settings: of the engine.
        candidates: how many guesses of a position are listed.
        fan_out: F_0 ... F_K of rounds after a hit (True) and after a miss, as Saguaro sampling must know them.
        calibration: how scores become odds.
    """

    def __init__(
        self,
        settings: Configure,
        *,
        candidates: int,
        fan_out: Callable[[bool], Sequence[int]],
        calibration: Calibration = UNCALIBRATED,
    ) -> None:
        self._settings = settings
        self._fan_out = fan_out
        self._calibration = calibration
        self._count = candidates_listed(candidates)

    def rank(self, logits_WV: torch.Tensor, draws: Sequence[Draw], ids_V: torch.Tensor | None = None) -> list[Guesses]:
        """Candidates of each row, best first: enough for the largest F_k beside a sent token."""
        if self._settings.rejection:
            draws = [replace(d, sampling=GREEDY) for d in draws]
        ranked, scores = top_candidates(logits_WV, draws, self._count, ids_V)
        guesses = [
            Guesses(tokens, guess_odds(row, self._calibration), row) for tokens, row in zip(ranked, scores, strict=True)
        ]
        certain = [
            None if self._settings.rejection else d.only for d in draws
        ]  # also where a shortlist lacks the token
        return [g if c is None else Guesses([c], [1.0], [0.0]) for g, c in zip(guesses, certain, strict=True)]

    def laws(self, logits_WV: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor | None:
        """The processed law of each row (W, V) under `rejection`; None under shared noise, which needs none."""
        if not self._settings.rejection:
            return None
        return laws(logits_WV, draws)

    def draw(
        self,
        laws_WV: torch.Tensor | None,
        draws: Sequence[Draw],
        guesses: Sequence[Guesses],
        due: Sequence[Due | None],
        ids_V: torch.Tensor | None = None,
    ) -> list[tuple[int, Law | None] | None]:
        """The draft's token at each position where one is due, and its law under `rejection`.

        `laws_WV` is what `laws` gave, `guesses` what `rank` gave.
        """
        if laws_WV is None:
            return [None if d is None else (g.tokens[0], None) for d, g in zip(due, guesses, strict=True)]
        rows = [row for row, one in enumerate(due) if one is not None]
        drawn: list[tuple[int, Law | None] | None] = [None] * len(due)
        if not rows:
            return drawn
        laws_DV = laws_WV[rows]
        numbers, counts = [], []
        for row in rows:
            one, how = due[row], draws[row]
            assert one is not None
            counts.append(self._scaled(one) if how.sampling.temperature > 0 else 0)
            number = sampling.uniform(
                how.sampling.seed,
                how.sampling.choice,
                position=how.position,
                round_number=one.round,
                branch=one.branch,
                purpose="draft",
            )
            numbers.append(number)
        if self._settings.saguaro_c < 1:
            laws_DV = saguaro_sampling.scale(laws_DV, counts, self._settings.saguaro_c)
        for row, column, law_V in zip(rows, sampling.draw_from_law(laws_DV, numbers), laws_DV, strict=True):
            drawn[row] = (column if ids_V is None or column < 0 else int(ids_V[column]), Law(law_V, ids_V))
        return drawn

    def _scaled(self, one: Due) -> int:
        """F_k of the token's place in its proposal, by the kind of that proposal."""
        if self._settings.saguaro_c == 1:
            return 0
        fan_out = self._fan_out(one.branch is not None)
        return fan_out[min(one.depth, len(fan_out) - 1)]
