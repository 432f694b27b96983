"""How a draft ranks and draws: under shared noise as the target will, under rejection from a law that travels.

`shared_noise`: the candidates of a position are ranked by noisy score; the first is the draft's token, the others are
its guesses of the bonus token (DESIGN D1, Section 4.1). `rejection`: candidates are ranked by logit; the token is
drawn from the processed law, with the top F_k scaled by C when Saguaro sampling is on (Section 4.2), with a number
keyed by position, round and branch and used for nothing else. Must not know: rows, channels, clocks. Tests:
tests/drafting/test_drawer.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from saguaro.algorithm import saguaro_sampling, sampling
from saguaro.algorithm.odds import Guesses, guess_odds
from saguaro.execution.sampler import Draw, top_candidates
from saguaro.protocol.messages import Configure

FEWEST_CANDIDATES = 4
"""So many are always ranked: odds of the first mean little without the others."""


class Drawer:
    """Ranks and draws under one set of settings."""

    def __init__(self, settings: Configure) -> None:
        self._settings = settings
        fan_out = settings.budget if settings.ranked else max(settings.fan_out, default=0)
        self._count = min(64, max(fan_out + 1, FEWEST_CANDIDATES))

    def rank(self, logits_WV: torch.Tensor, draws: Sequence[Draw]) -> list[Guesses]:
        """Candidates of each row, best first: enough for the largest F_k beside a sent token."""
        if self._settings.rejection:
            draws = [replace(d, temperature=0.0) for d in draws]
        ranked, scores = top_candidates(logits_WV, draws, self._count)
        return [Guesses(tokens, guess_odds(row)) for tokens, row in zip(ranked, scores, strict=True)]

    def laws(self, logits_WV: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor | None:
        """The processed law of each row (W, V) under `rejection`; None under shared noise, which needs none."""
        if not self._settings.rejection:
            return None
        temperatures = [d.temperature for d in draws]
        return sampling.law(logits_WV, temperatures, [d.top_k for d in draws], [d.top_p for d in draws])

    def draw(
        self,
        law_V: torch.Tensor | None,
        draw: Draw,
        guesses: Guesses,
        depth: int,
        round_: int,
        branch: tuple[int, int] | None,
    ) -> tuple[int, torch.Tensor | None]:
        """The draft's token at a position, and its law q (V) float32 under `rejection`.

        `law_V` is the position's row of `laws`; `depth` is the token's place in its proposal, `round_` the round that
        would verify it, `branch` the outcome that it was prepared for (None: the neural fallback).
        """
        if law_V is None:
            return guesses.tokens[0], None
        if self._settings.saguaro_c < 1 and draw.temperature > 0:
            fan_out = self._settings.fan_out[min(depth, len(self._settings.fan_out) - 1)]
            law_V = saguaro_sampling.scale(law_V[None], fan_out, self._settings.saguaro_c)[0]
        number = sampling.uniform(
            draw.seed, draw.choice, position=draw.position, round_number=round_, branch=branch, purpose="draft"
        )
        return sampling.draw_from_law(law_V[None], [number])[0], law_V
