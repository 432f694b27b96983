"""Draft now: the target waits while the draft drafts the missed rows, and only those (Section 4.3, low batch size)."""

from saguaro.algorithm import fallbacks
from saguaro.algorithm.terms import Proposal
from saguaro.drafting.fallbacks.base import Fallback, Missed


class NeuralFallback(Fallback):
    """Leaves the proposal to the draft."""

    source = "neural"
    asks_draft = True

    def propose(self, missed: Missed) -> Proposal:
        return fallbacks.propose_nothing()
