"""What followed the last time that the row's own text ended like this; no time, no model."""

from saguaro.algorithm import fallbacks
from saguaro.algorithm.terms import Proposal
from saguaro.drafting.fallbacks.base import Fallback, Missed


class NGramFallback(Fallback):
    """Looks the last tokens up in prompt and output."""

    source = "ngram"

    def propose(self, missed: Missed) -> Proposal:
        return fallbacks.propose_ngram(missed.tokens, depth=missed.lookahead)
