"""No proposal: the next round decodes one token."""

from saguaro.drafting.fallbacks.base import Fallback, Missed, Offer


class NoFallback(Fallback):
    """Proposes nothing."""

    def offers(self, missed: Missed) -> list[Offer]:
        return []
