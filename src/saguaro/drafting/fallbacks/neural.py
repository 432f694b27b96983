"""Draft now: the target waits while the draft drafts the missed rows, and only those (Section 4.3, low batch size)."""

from saguaro.drafting.fallbacks.base import Fallback, Missed, Offer


class NeuralFallback(Fallback):
    """Leaves the proposal to the draft."""

    asks_draft = True

    def offers(self, missed: Missed) -> list[Offer]:
        return []
