"""KL and acceptance against direct sums; acceptance by position against an example done by hand."""

import pytest
import torch
from torch.nn import functional

from saguaro.training import loss
from saguaro.training.curve import by_position
from saguaro.training.loss import Laws, backward, kl, pull, taken


def laws_of(p_RV, *, k=None, column_V=None, own=None) -> Laws:
    """The k likeliest tokens of whole laws."""
    count, vocab = p_RV.shape
    column_V = torch.arange(vocab) if column_V is None else column_V
    kept = p_RV.topk(k or vocab, dim=-1)
    own_R = torch.zeros(count, dtype=torch.int64) if own is None else own
    rest_R = torch.zeros(count) if (k or vocab) == vocab else 1 - kept.values.sum(-1)
    return Laws(column_V[kept.indices], kept.values, rest_R, column_V[own_R], p_RV.gather(1, own_R[:, None])[:, 0])


@pytest.fixture
def some():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(7, 9, generator=generator)
    return logits, (2 * torch.randn(7, 9, generator=generator)).softmax(-1)


def test_kl_of_a_whole_law(some):
    logits, p = some
    expected = functional.kl_div(logits.log_softmax(-1), p, reduction="none").sum(-1)
    torch.testing.assert_close(kl(logits, laws_of(p)), expected, rtol=1e-5, atol=1e-5)


def test_kl_with_one_bucket_for_the_rest(some):
    logits, p = some
    top = p.topk(4, dim=-1)
    q = logits.softmax(-1).gather(1, top.indices)
    p_bins, q_bins = (torch.cat([each, 1 - each.sum(-1, keepdim=True)], dim=-1) for each in (top.values, q))
    expected = (p_bins * (p_bins / q_bins).log()).sum(-1)
    torch.testing.assert_close(kl(logits, laws_of(p, k=4)), expected, rtol=1e-4, atol=1e-5)


def test_kl_over_what_the_draft_can_say(some):
    logits, p = some
    ids = torch.tensor([1, 4, 5, 8])
    column_V = torch.full((9,), -1).index_copy(0, ids, torch.arange(4))
    within = p[:, ids] / p[:, ids].sum(-1, keepdim=True)
    expected = functional.kl_div(logits[:, :4].log_softmax(-1), within, reduction="none").sum(-1)
    torch.testing.assert_close(kl(logits[:, :4], laws_of(p, column_V=column_V)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weights", [None, torch.tensor([1.0, 0.0, 3.0, 0.5, 1.0, 2.0, 0.1])], ids=["even", "weighed"])
def test_the_gradient_in_pieces_is_the_gradient(monkeypatch, some, weights):
    monkeypatch.setattr(loss, "CHUNK", 3)
    _, p = some
    generator = torch.Generator().manual_seed(1)
    start, head = (torch.randn(*size, generator=generator).requires_grad_() for size in ((7, 5), (9, 5)))
    laws = laws_of(p, k=6)
    value = backward(start * 2, head, laws, compute=torch.float32, weight_R=weights)
    found = [start.grad.clone(), head.grad.clone()]
    start.grad = head.grad = None
    losses = kl((start * 2) @ head.T, laws)
    direct = losses.mean() if weights is None else (losses * weights).sum() / weights.sum()
    direct.backward()
    assert value == pytest.approx(float(direct.detach()), rel=1e-5)
    for gradient, expected in zip(found, (start.grad, head.grad), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


def test_a_law_without_any_token_of_the_draft_gives_finite_gradients():
    logits = torch.randn(1, 3).requires_grad_()
    laws = Laws(torch.tensor([[-1, -1]]), torch.tensor([[0.6, 0.4]]), torch.zeros(1), torch.tensor([-1]), torch.ones(1))
    kl(logits, laws).sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_taken_of_whole_laws(some):
    logits, p = some
    own = torch.arange(7)
    found, q = taken(logits, laws_of(p, own=own)), logits.softmax(-1)
    torch.testing.assert_close(found.overlap_R, torch.minimum(p, q).sum(-1))
    assert torch.equal(found.greedy_R, (logits.argmax(-1) == p.argmax(-1)).float())
    ratio = q.gather(1, own[:, None])[:, 0] / p.gather(1, own[:, None])[:, 0]
    torch.testing.assert_close(found.passes_R, ratio.clamp(max=1))
    assert found.slack_R.abs().max() < 1e-6


def test_what_laws_leave_out_is_between_the_bounds(some):
    logits, p = some
    exact = torch.minimum(p, logits.softmax(-1)).sum(-1)
    found = taken(logits, laws_of(p, k=3))
    assert (found.overlap_R <= exact + 1e-6).all()
    assert (exact <= found.overlap_R + found.slack_R + 1e-6).all()
    assert found.slack_R.max() > 0.01


def test_greedy_positions_count_runs():
    """Texts 1 1 0 1 and 1 1: behind a taken token there are 1 0 1 and nothing more, and so on."""
    runs = torch.tensor([1.0, 1, 0, 1, 1, 1])
    found = by_position(runs, runs, [4, 2])
    assert found[:3] == pytest.approx((5 / 6, 2 / 3, 0.0))
    assert found[3:] == (None, None, None)


def test_sampled_positions_weigh_by_what_a_draft_would_have_drawn():
    """p = (.5, .5), q = (.25, .75) at first; then the overlap is .2 after token 0 and .8 after token 1. A draft's first
    token is taken as 0 with .25 and as 1 with .5, so that the second one is taken with (.25 * .2 + .5 * .8) / .75.
    """
    overlap = torch.tensor([0.75, 0.2, 0.75, 0.8])
    passes = torch.tensor([0.5, 1.0, 1.0, 1.0])
    assert by_position(overlap, passes, [2, 2])[1] == pytest.approx(0.6)


def test_the_pull_is_the_gradient_of_the_relative_distance(some):
    p = some[1]
    generator = torch.Generator().manual_seed(2)
    hidden, target = (torch.randn(7, 5, generator=generator) for _ in range(2))
    hidden.requires_grad_()
    (3.0 * ((hidden - target).square().sum(-1) / target.square().sum(-1)).mean()).backward()
    torch.testing.assert_close(pull(hidden, target, 3.0), hidden.grad)
    head, laws = torch.randn(9, 5, generator=generator), laws_of(p)
    gradients = []
    for extra in (None, torch.ones(7, 5)):
        start = hidden.detach().clone().requires_grad_()
        backward(start * 1, head, laws, compute=torch.float32, pull_RH=extra)
        gradients.append(start.grad)
    torch.testing.assert_close(gradients[1] - gradients[0], torch.ones(7, 5))


def test_raised_logits_are_those_of_more_rows(some):
    """A row that stands for three has its logit raised by log 3."""
    _, p = some
    generator = torch.Generator().manual_seed(4)
    hidden, head = torch.randn(7, 5, generator=generator), torch.randn(9, 5, generator=generator)
    laws = laws_of(p, k=6)
    whole, part = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()
    more = torch.cat([head, head[-1:], head[-1:]])
    unnamed = Laws(laws.columns_RK.where(laws.columns_RK < 8, -1), laws.p_RK, laws.rest_R, laws.own_R, laws.p_own_R)
    raised = torch.zeros(9)
    raised[-1] = torch.log(torch.tensor(3.0))
    losses = [
        backward(whole * 1, more, unnamed, compute=torch.float32),
        backward(part * 1, head, unnamed, compute=torch.float32, raise_N=raised),
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    torch.testing.assert_close(part.grad, whole.grad, rtol=1e-4, atol=1e-6)
