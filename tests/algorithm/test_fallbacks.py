import torch
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.fallbacks import (
    ALONE,
    ELSEWHERE,
    MAJORITY,
    UNANIMOUS,
    propose_ngram,
    propose_nothing,
    propose_own_row,
    propose_random,
)
from saguaro.algorithm.suffix_index import Corpus, SuffixIndex
from saguaro.algorithm.terms import NOTHING, PointMassLaw, UniformLaw


def test_nothing():
    assert propose_nothing().depth == 0


def test_random_tokens_are_uniform_over_the_vocabulary():
    tokens = [
        t for r in range(2000) for t in propose_random(3, 0, position=10, round_number=r, depth=4, vocab=16).tokens
    ]
    counts = torch.tensor(tokens).bincount(minlength=16).double()
    expected = len(tokens) / 16
    statistic = ((counts - expected) ** 2 / expected).sum() / 2
    assert float(torch.special.gammaincc(torch.tensor(7.5).double(), statistic)) > 1e-3


def test_random_reaches_both_ends_of_a_large_vocabulary():
    proposals = [propose_random(1, 0, position=0, round_number=r, depth=16, vocab=151_936) for r in range(100)]
    tokens = [t for proposal in proposals for t in proposal.tokens]
    assert min(tokens) < 1000
    assert 150_900 < max(tokens) < 151_936


def test_random_is_keyed_and_carries_its_law():
    one = propose_random(1, 0, position=5, round_number=2, depth=3, vocab=1000)
    assert one.law == UniformLaw(1000)
    assert one == propose_random(1, 0, position=5, round_number=2, depth=3, vocab=1000)
    others = [
        propose_random(2, 0, position=5, round_number=2, depth=3, vocab=1000),
        propose_random(1, 1, position=5, round_number=2, depth=3, vocab=1000),
        propose_random(1, 0, position=6, round_number=2, depth=3, vocab=1000),
        propose_random(1, 0, position=5, round_number=3, depth=3, vocab=1000),
    ]
    assert all(other.tokens != one.tokens for other in others)


def index(tokens: list[int]) -> SuffixIndex:
    text = SuffixIndex()
    text.extend(tokens)
    return text


def by_hand(tokens: list[int], depth: int) -> tuple[int, ...]:
    """Longest suffix first, last occurrence first; where the text ends, it is taken to repeat itself."""
    for size in range(min(4, len(tokens) - 1), 0, -1):
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == tokens[-size:]:
                line, period = list(tokens), len(tokens) - start - size
                for _ in range(depth):
                    line.append(line[-period])
                return tuple(line[start + size :][:depth])
    return ()


@given(st.lists(st.sampled_from([0, 1, 2, 256, 65536, 1 << 24]), max_size=24), st.integers(1, 5))
def test_ngram_finds_what_followed(tokens, depth):
    proposal, size = propose_ngram(index(tokens), depth=depth)
    assert proposal.tokens == by_hand(tokens, depth)
    assert (size > 0) == bool(proposal.tokens)


def test_ngram_is_certain_of_its_tokens_and_says_how_much_matched():
    proposal, size = propose_ngram(index([5, 6, 7, 5, 6]), depth=3)
    assert (proposal.tokens, proposal.law, size) == ((7, 5, 6), PointMassLaw(), 2)
    assert propose_ngram(index([1, 2, 3]), depth=3) == (NOTHING, 0)
    assert propose_ngram(index([]), depth=3) == (NOTHING, 0)


def test_earlier_outputs_count_where_they_match_more():
    corpus = Corpus(100)
    corpus.add([6, 7, 8, 9])
    assert propose_ngram(index([1, 6, 7]), depth=3, corpus=corpus)[0].tokens == (8, 9)
    assert propose_ngram(index([7, 1, 6, 7]), depth=3, corpus=corpus)[0].tokens == (8, 9)
    own = propose_ngram(index([6, 7, 1, 6, 7]), depth=2, corpus=corpus)
    assert own[0].tokens == (1, 6)


def own_row(accepted, bonus, cached, *, rejected=(), depth=4):
    offers = propose_own_row(accepted, bonus, cached, rejected=rejected, depth=depth)
    assert all(proposal.law == PointMassLaw() for proposal, _ in offers)
    return {grade: proposal.tokens for proposal, grade in offers}


def test_own_row_takes_the_likeliest_branch_of_the_same_place():
    cached = [(0, 9, (1, 2)), (2, 9, ()), (2, 8, (3, 4, 5)), (2, 7, (6,))]
    assert own_row(2, 11, cached, depth=2) == {ALONE: (3, 4)}
    assert own_row(1, 11, cached) == {}
    assert own_row(2, 11, cached, depth=0) == {}


def test_own_row_counts_what_stood_behind_the_rejected_token():
    assert own_row(1, 5, [], rejected=(2, 3, 4)) == {ALONE: (3, 4)}
    assert own_row(1, 5, [], rejected=(2,)) == {}
    assert own_row(1, 5, [(1, 6, (3,))], rejected=(2, 3, 4)) == {UNANIMOUS: (3, 4)}


def test_own_row_prefers_what_several_branches_say():
    cached = [(1, 6, (7, 1)), (1, 5, (8, 2)), (1, 4, (8, 3, 3))]
    assert own_row(1, 9, cached) == {MAJORITY: (8, 3, 3)}
    assert own_row(1, 9, cached[1:]) == {UNANIMOUS: (8, 3, 3)}


def test_own_row_finds_the_bonus_token_elsewhere():
    """The target leaves out a token that the draft wanted, or goes on as the draft expected after another k."""
    assert own_row(1, 3, [], rejected=(2, 3, 4, 5)) == {ALONE: (3, 4, 5), ELSEWHERE: (4, 5)}
    assert own_row(1, 7, [(1, 6, (7, 8))]) == {ALONE: (7, 8), ELSEWHERE: (8,)}
    assert own_row(1, 7, [(0, 7, (4, 4))]) == {ELSEWHERE: (4, 4)}
    assert own_row(1, 7, [(0, 4, (4, 7))]) == {}
