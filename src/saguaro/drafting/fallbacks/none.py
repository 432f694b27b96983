"""No proposal: the next round decodes one token."""

from saguaro.algorithm import fallbacks
from saguaro.algorithm.terms import Proposal
from saguaro.drafting.fallbacks.base import Fallback, Missed


class NoFallback(Fallback):
    """Proposes nothing."""

    source = "none"

    def propose(self, missed: Missed) -> Proposal:
        return fallbacks.propose_nothing()
