"""Uniformly random tokens: no time, and a law that keeps `rejection` exact (the paper's fast backup)."""

from saguaro.algorithm import fallbacks
from saguaro.algorithm.terms import Proposal
from saguaro.drafting.fallbacks.base import Fallback, Missed


class RandomFallback(Fallback):
    """Draws every token uniformly from the vocabulary."""

    source = "random"

    def propose(self, missed: Missed) -> Proposal:
        return fallbacks.propose_random(
            missed.seed,
            missed.choice,
            position=len(missed.tokens),
            round_number=missed.round,
            depth=missed.lookahead,
            vocab=missed.vocab,
        )
