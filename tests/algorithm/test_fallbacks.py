import torch

from saguaro.algorithm.fallbacks import propose_nothing, propose_random
from saguaro.algorithm.terms import UniformLaw


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
