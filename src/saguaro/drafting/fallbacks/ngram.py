"""What followed the last time that a text ended like this: the row's own, or an earlier output; no time, no model."""

from saguaro.algorithm import fallbacks
from saguaro.drafting.fallbacks.base import Fallback, Missed, Offer


class NGramFallback(Fallback):
    """Looks the last tokens up in prompt and output; the grade is how many of them matched."""

    reads_text = True

    def offers(self, missed: Missed) -> list[Offer]:
        proposal, size = fallbacks.propose_ngram(missed.text, depth=missed.lookahead, corpus=missed.corpus)
        return [Offer("ngram", proposal, size)] if proposal.tokens else []
