"""From logits to what is learnt and measured: KL to the target's law, and how often its tokens would be taken.

A law is known by its k likeliest tokens, the mass of all others, and the tokens' columns among the draft's logits (-1
where the draft cannot say a token). With k = V it is the whole law. Letters: R positions, N columns of the draft, K
kept tokens. Must not know: models, files. Tests: tests/training/test_loss.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from saguaro.training.student import head_logits

ALMOST_ONE = 1 - 1e-6
CHUNK = 256


@dataclass(frozen=True, eq=False)
class Laws:
    """The target's law at R positions.

    columns_RK: int64, the draft's column of each kept token, likeliest token first. p_RK: their probabilities.
    rest_R: the mass of all others. own_R: column of the token that followed. p_own_R: its probability.
    """

    columns_RK: torch.Tensor
    p_RK: torch.Tensor
    rest_R: torch.Tensor
    own_R: torch.Tensor
    p_own_R: torch.Tensor

    def part(self, begin: int, end: int) -> Laws:
        """Some of the positions."""
        fields = (self.columns_RK, self.p_RK, self.rest_R, self.own_R, self.p_own_R)
        return Laws(*(field[begin:end] for field in fields))

    def to(self, device: torch.device | str) -> Laws:
        """On another device."""
        fields = (self.columns_RK, self.p_RK, self.rest_R, self.own_R, self.p_own_R)
        return Laws(*(field.to(device) for field in fields))


def kl(logits_RN: torch.Tensor, laws: Laws) -> torch.Tensor:
    """KL(p || q) at each position (R), over the kept tokens that the draft can say and one bucket for all others.

    p is brought to the sum 1 over what the draft can say: mass beyond its vocabulary cannot be learnt, and the law that
    is nearest then keeps the ratios of the rest.
    """
    said_RK, p_RK, rest_R = _within(laws)
    log_q_RK = logits_RN.gather(1, laws.columns_RK.clamp(min=0)) - logits_RN.logsumexp(-1, keepdim=True)
    kept_R = torch.where(said_RK, log_q_RK.exp(), 0.0).sum(-1)
    log_other_R = torch.log1p(-kept_R.clamp(max=ALMOST_ONE))
    cross_R = -(p_RK * log_q_RK).sum(-1) - rest_R * log_other_R
    entropy_R = -torch.xlogy(p_RK, p_RK).sum(-1) - torch.xlogy(rest_R, rest_R)
    return cross_R - entropy_R


def backward(
    hidden_RH: torch.Tensor,
    head_NH: torch.Tensor,
    laws: Laws,
    *,
    compute: torch.dtype,
    raise_N: torch.Tensor | None = None,
    weight_R: torch.Tensor | None = None,
    pull_RH: torch.Tensor | None = None,
) -> float:
    """Mean KL of R positions; its gradient is added to all that `hidden_RH` and the head depend on.

    A few positions at a time, so that logits never exist for a whole batch.

    Args:
        hidden_RH: normed hidden states, part of a graph.
        head_NH: the head's parameter, with or without gradient.
        laws: of those positions.
        compute: dtype of the products.
        raise_N: added to the logits (`sampled_head.py`).
        weight_R: what each position counts in the mean; None is alike.
        pull_RH: a further gradient in the hidden states.
    """
    count = hidden_RH.shape[0]
    share_R = (torch.ones(count) if weight_R is None else weight_R).to(hidden_RH)
    share_R = share_R / share_R.sum()
    with torch.no_grad():
        weight_NH = head_NH.to(compute)
        slope_RH = torch.empty_like(hidden_RH)
        slope_NH = torch.zeros_like(weight_NH) if head_NH.requires_grad else None
        total = 0.0
        for begin in range(0, count, CHUNK):
            part = slice(begin, min(count, begin + CHUNK))
            states_RH = hidden_RH[part].to(compute)
            logits_RN = head_logits(states_RH, weight_NH)
            if raise_N is not None:
                logits_RN += raise_N
            losses_R, slope_RN = slopes(logits_RN, laws.part(part.start, part.stop))
            total += float(losses_R @ share_R[part])
            slope_RN = slope_RN.mul_(share_R[part, None]).to(compute)
            slope_RH[part] = (slope_RN @ weight_NH).float()
            if slope_NH is not None:
                slope_NH.addmm_(slope_RN.T, states_RH)
        if slope_NH is not None:
            gradient = slope_NH.to(head_NH.dtype)
            head_NH.grad = gradient if head_NH.grad is None else head_NH.grad + gradient
    torch.autograd.backward(hidden_RH, slope_RH if pull_RH is None else slope_RH + pull_RH)
    return total


def pull(hidden_RH: torch.Tensor, target_RH: torch.Tensor, weight: float) -> torch.Tensor:
    """The gradient of weight * |h - t|^2 / |t|^2, in the mean over R positions."""
    with torch.no_grad():
        sizes_R1 = target_RH.square().sum(-1, keepdim=True).clamp(min=1e-9)
        return (hidden_RH - target_RH) * (2 * weight / len(target_RH)) / sizes_R1


def slopes(logits_RN: torch.Tensor, laws: Laws) -> tuple[torch.Tensor, torch.Tensor]:
    """KL(p || q) at each position (R) and its gradient in the logits (R, N), which takes their memory's place.

    With r the mass of the rest and Q the draft's mass of the kept tokens the gradient is q - p at these and
    q * (1 - r / (1 - Q)) elsewhere: automatic differentiation would pass over the vocabulary several times more.
    """
    said_RK, p_RK, rest_R = _within(laws)
    columns_RK = laws.columns_RK.clamp(min=0)
    q_RN = logits_RN.softmax(-1)
    q_RK = torch.where(said_RK, q_RN.gather(1, columns_RK), 0.0)
    other_R = (1 - q_RK.sum(-1)).clamp(min=1 - ALMOST_ONE)
    losses_R = torch.xlogy(p_RK, p_RK / q_RK.clamp(min=1e-38)).sum(-1) + torch.xlogy(rest_R, rest_R / other_R)
    scale_R1 = (1 - rest_R / other_R)[:, None]
    slope_RN = q_RN.mul_(scale_R1)
    change_RK = torch.where(said_RK, q_RK * (1 - scale_R1) - p_RK, 0.0)
    return losses_R, slope_RN.scatter_add_(1, columns_RK, change_RK)


def _within(laws: Laws) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Which kept tokens the draft can say, and p over them and the rest, brought to the sum 1."""
    said_RK = laws.columns_RK >= 0
    p_RK = torch.where(said_RK, laws.p_RK, 0.0)
    total_R = (p_RK.sum(-1) + laws.rest_R).clamp(min=1e-9)
    return said_RK, p_RK / total_R[:, None], laws.rest_R / total_R


@dataclass(frozen=True, eq=False)
class Taken:
    """How the draft would fare at R positions.

    greedy_R: 1 where its likeliest token is the target's. overlap_R: sum of min(p, q) over kept tokens, a lower bound
    of the whole. slack_R: what the others may add to it. passes_R: the probability that the token which followed, had
    the draft drawn it, is accepted: min(1, q / p).
    """

    greedy_R: torch.Tensor
    overlap_R: torch.Tensor
    slack_R: torch.Tensor
    passes_R: torch.Tensor


def taken(logits_RN: torch.Tensor, laws: Laws) -> Taken:
    """Compare the draft's law with the target's at each position."""
    q_RN = logits_RN.softmax(-1)
    said_RK = laws.columns_RK >= 0
    q_RK = torch.where(said_RK, q_RN.gather(1, laws.columns_RK.clamp(min=0)), 0.0)
    q_own_R = torch.where(laws.own_R >= 0, q_RN.gather(1, laws.own_R.clamp(min=0)[:, None])[:, 0], 0.0)
    return Taken(
        greedy_R=(logits_RN.argmax(-1) == laws.columns_RK[:, 0]).float(),
        overlap_R=torch.minimum(laws.p_RK, q_RK).sum(-1),
        slack_R=torch.minimum(laws.rest_R, (1 - q_RK.sum(-1)).clamp(min=0)),
        passes_R=(q_own_R / laws.p_own_R.clamp(min=1e-12)).clamp(max=1.0),
    )
