"""Some rows of a head stand for all: with all rows nothing changes, with some the gradient is right in the mean."""

import pytest
import torch
from tests.training.test_loss import laws_of

from saguaro.training.loss import backward
from saguaro.training.sampled_head import SampledHead, within

VOCAB, HIDDEN, POSITIONS = 60, 6, 9


@pytest.fixture
def some():
    generator = torch.Generator().manual_seed(3)
    p = (3 * torch.randn(POSITIONS, VOCAB, generator=generator)).softmax(-1)
    hidden, head = (torch.randn(*size, generator=generator) for size in ((POSITIONS, HIDDEN), (VOCAB, HIDDEN)))
    return hidden, head, laws_of(p, k=5), p.sum(0)


def slope(hidden, weight, laws, raised=None):
    hidden = hidden.clone().requires_grad_()
    loss = backward(hidden * 1, weight, laws, compute=torch.float32, raise_N=raised)
    return loss, hidden.grad


def test_all_rows_are_the_whole_head(some):
    hidden, head, laws, mass = some
    chosen = SampledHead(head, mass, size=VOCAB, compute=torch.float32, seed=0).choose(4, laws)
    assert len(chosen.weight_SH) == VOCAB
    expected, found = slope(hidden, head, laws), slope(hidden, chosen.weight_SH, chosen.laws, chosen.raise_S)
    assert chosen.raise_S.abs().max() == 0
    # Kept tokens of little mass may be among those drawn; then they are part of the bucket of all others.
    assert found[0] == pytest.approx(expected[0], abs=5e-3)
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=5e-3)


def test_the_sum_over_the_vocabulary_is_right_in_the_mean(some):
    hidden, head, laws, mass = some
    sampled = SampledHead(head, mass, size=40, compute=torch.float32, seed=0)
    expected, sums = (hidden @ head.T).exp().sum(-1), []
    for step in range(400):
        chosen = sampled.choose(step, laws)
        assert 30 < len(chosen.weight_SH) < VOCAB
        sums.append((hidden @ chosen.weight_SH.T + chosen.raise_S).exp().sum(-1))
    error = torch.stack(sums) - expected
    assert error.abs().mean() > 0.05 * expected.mean()
    assert error.mean(0).abs().mean() < 0.1 * error.abs().mean()


def test_a_gradient_of_some_rows_is_near_that_of_all(some):
    hidden, head, laws, mass = some
    _, expected = slope(hidden, head, laws)
    sampled = SampledHead(head, mass, size=40, compute=torch.float32, seed=0)
    slopes = []
    for step in range(50):
        chosen = sampled.choose(step, laws)
        slopes.append(slope(hidden, chosen.weight_SH, chosen.laws, chosen.raise_S)[1])
    cosine = torch.nn.functional.cosine_similarity(torch.stack(slopes).mean(0), expected, dim=-1)
    assert cosine.mean() > 0.97


def test_rows_are_a_function_of_seed_and_step(some):
    _, head, laws, mass = some
    first, again, other = (
        SampledHead(head, mass, size=20, compute=torch.float32, seed=seed).choose(step, laws).weight_SH
        for seed, step in ((1, 2), (1, 2), (1, 3))
    )
    assert torch.equal(first, again)
    assert first.shape != other.shape or not torch.equal(first, other)


def test_mass_without_a_row_joins_that_of_the_others(some):
    _, _, laws, _ = some
    place = torch.full((VOCAB,), -1)
    kept = int(laws.columns_RK[0, 1])
    place[kept] = 0
    found = within(laws, place)
    assert found.columns_RK[0].tolist() == [-1, 0, -1, -1, -1]
    lost = laws.p_RK[0].sum() - laws.p_RK[0, 1]
    torch.testing.assert_close(found.rest_R[0], laws.rest_R[0] + lost)
