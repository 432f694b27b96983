"""Every fallback: a lawful proposal of at most the asked length, the same for the same key."""

import pytest

from saguaro.algorithm import verify
from saguaro.algorithm.terms import PointMassLaw
from saguaro.drafting.fallbacks import FALLBACKS
from saguaro.drafting.fallbacks.base import Missed


def missed(round_: int = 3, lookahead: int = 4) -> Missed:
    return Missed((1, 2, 3, 9, 8, 7, 6, 5, 1, 2), 7, 0, round_, lookahead, 16, 1, ((0, (4, 4)), (1, (5, 6, 7, 8, 9))))


@pytest.mark.parametrize("name", FALLBACKS.names())
def test_a_fallback_is_lawful(name: str) -> None:
    fallback = FALLBACKS.get(name)()
    proposal = fallback.propose(missed())
    assert len(proposal.tokens) <= 4
    assert all(0 <= token < 16 for token in proposal.tokens)
    assert fallback.propose(missed()) == proposal
    if fallback.asks_draft:
        assert not proposal.tokens
    if proposal.tokens:
        assert all(verify.probability(proposal, i) > 0 for i in range(len(proposal.tokens)))
        if not isinstance(proposal.law, PointMassLaw):
            assert fallback.propose(missed(round_=4)).tokens != proposal.tokens
        assert fallback.propose(missed(lookahead=2)).tokens == proposal.tokens[:2]
