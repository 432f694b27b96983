"""Whatever pays most, by running estimates: the draft, the row's own tokens, its text, or nothing (DESIGN D9).

Random tokens are not among them: one in V is accepted and each costs a row of the verification, so nothing is better.
"""

from saguaro.drafting.fallbacks.base import Fallback, Missed, Offer
from saguaro.drafting.fallbacks.ngram import NGramFallback
from saguaro.drafting.fallbacks.own_row import OwnRowFallback

MEMBERS = (NGramFallback(), OwnRowFallback())


class AdaptiveFallback(Fallback):
    """Offers what `ngram` and `own_row` offer; the draft may be asked, too."""

    asks_draft = True
    reads_text = True
    reads_cache = True
    chooses = True

    def offers(self, missed: Missed) -> list[Offer]:
        return [offer for member in MEMBERS for offer in member.offers(missed)]
