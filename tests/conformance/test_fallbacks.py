"""Every fallback: lawful offers of at most the asked length, the same for the same key."""

import pytest

from saguaro.algorithm import verify
from saguaro.algorithm.suffix_index import Corpus, SuffixIndex
from saguaro.algorithm.terms import PointMassLaw
from saguaro.drafting.fallbacks import FALLBACKS
from saguaro.drafting.fallbacks.base import Missed
from saguaro.protocol.messages import SOURCES

TOKENS = (1, 2, 3, 9, 8, 7, 6, 5, 1, 2)


def missed(round_: int = 3, lookahead: int = 4) -> Missed:
    text, corpus = SuffixIndex(), Corpus(64)
    text.extend(TOKENS)
    corpus.add([5, 1, 2, 4])
    return Missed(
        length=len(TOKENS), seed=7, choice=0, round=round_, lookahead=lookahead, vocab=16, accepted=1, bonus=2,
        text=text, corpus=corpus, cached=((0, 3, (4, 4)), (1, 4, (5, 6, 7, 8, 9))), rejected=(4, 2, 3),
    )  # fmt: skip


@pytest.mark.parametrize("name", FALLBACKS.names())
def test_offers_are_lawful(name: str) -> None:
    fallback = FALLBACKS.get(name)()
    offers = fallback.offers(missed())
    assert fallback.offers(missed()) == offers
    assert len({(offer.source, offer.grade) for offer in offers}) == len(offers)
    shorter = {(source, grade): proposal.tokens for source, proposal, grade in fallback.offers(missed(lookahead=2))}
    later = {(source, grade): proposal.tokens for source, proposal, grade in fallback.offers(missed(round_=4))}
    for source, proposal, grade in offers:
        assert source in SOURCES
        assert 0 < len(proposal.tokens) <= 4
        assert all(0 <= token < 16 for token in proposal.tokens)
        assert all(verify.probability(proposal, i) > 0 for i in range(len(proposal.tokens)))
        assert shorter[source, grade] == proposal.tokens[:2]
        same = isinstance(proposal.law, PointMassLaw)
        assert (later[source, grade] == proposal.tokens) == same
    assert offers or name in ("none", "neural")


@pytest.mark.parametrize("name", FALLBACKS.names())
def test_nothing_is_offered_where_nothing_is_asked_for_or_known(name: str) -> None:
    fallback = FALLBACKS.get(name)()
    assert fallback.offers(missed(lookahead=0)) == []
    offers = fallback.offers(Missed(length=1, seed=7, choice=0, round=1, lookahead=3, vocab=16))
    assert bool(offers) == (name == "random")
