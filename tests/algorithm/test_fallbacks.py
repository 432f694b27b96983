import torch
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.fallbacks import propose_ngram, propose_nothing, propose_own_row, propose_random
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


def by_hand(tokens: list[int], depth: int) -> tuple[int, ...]:
    """Longest suffix first, last occurrence first."""
    for size in range(min(4, len(tokens) - 1), 0, -1):
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == tokens[-size:]:
                return tuple(tokens[start + size : start + size + depth])
    return ()


@given(st.lists(st.sampled_from([0, 1, 2, 256, 65536, 1 << 24]), max_size=24), st.integers(1, 5))
def test_ngram_finds_what_followed(tokens, depth):
    assert propose_ngram(tokens, depth=depth).tokens == by_hand(tokens, depth)


def test_ngram_is_certain_of_its_tokens():
    assert propose_ngram([5, 6, 7, 5, 6], depth=3).law == PointMassLaw()
    assert propose_ngram([1, 2, 3], depth=3) == NOTHING
    assert propose_ngram([], depth=3) == NOTHING


def test_own_row_takes_the_likeliest_branch_of_the_same_place():
    cached = [(0, (1, 2)), (2, ()), (2, (3, 4, 5)), (2, (6,))]
    assert propose_own_row(2, cached, depth=2).tokens == (3, 4)
    assert propose_own_row(1, cached, depth=2) == NOTHING
