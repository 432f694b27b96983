"""What the draft prepared for other outcomes of the same round; no time, and the draft's own words."""

from saguaro.algorithm import fallbacks
from saguaro.drafting.fallbacks.base import Fallback, Missed, Offer


class OwnRowFallback(Fallback):
    """Takes what the cache holds for the row, and what was left of its proposal; under `rejection` the cache stays with
    the draft, and the latter is all there is.
    """

    reads_cache = True

    def offers(self, missed: Missed) -> list[Offer]:
        found = fallbacks.propose_own_row(
            missed.accepted, missed.bonus, missed.cached, rejected=missed.rejected, depth=missed.lookahead
        )
        return [Offer("own_row", proposal, grade) for proposal, grade in found]
