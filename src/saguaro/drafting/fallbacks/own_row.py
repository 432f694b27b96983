"""The row's likeliest branch for another bonus token at the same place; no time, and the draft's own words."""

from saguaro.algorithm import fallbacks
from saguaro.algorithm.terms import Proposal
from saguaro.drafting.fallbacks.base import Fallback, Missed


class OwnRowFallback(Fallback):
    """Takes what the cache holds for the row; under `rejection` the cache stays with the draft: nothing."""

    source = "own_row"
    reads_cache = True

    def propose(self, missed: Missed) -> Proposal:
        return fallbacks.propose_own_row(missed.accepted, missed.cached, depth=missed.lookahead)
