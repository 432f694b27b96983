"""Uniformly random tokens: no time, and a law that keeps `rejection` exact (the paper's fast backup)."""

from saguaro.algorithm import fallbacks
from saguaro.drafting.fallbacks.base import Fallback, Missed, Offer


class RandomFallback(Fallback):
    """Draws every token uniformly from the vocabulary."""

    def offers(self, missed: Missed) -> list[Offer]:
        if missed.lookahead < 1:
            return []
        proposal = fallbacks.propose_random(
            missed.seed,
            missed.choice,
            position=missed.length,
            round_number=missed.round,
            depth=missed.lookahead,
            vocab=missed.vocab,
        )
        return [Offer("random", proposal)]
