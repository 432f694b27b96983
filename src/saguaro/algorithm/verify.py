"""Verification by rejection (DESIGN D1), and the laws behind it; by shared noise: `agreement`, named here too.

Section 2.1: a token is accepted with probability min(1, p/q); after the first rejection the bonus token comes from
the residual law, proportional to max(p - q, 0); after none, from p itself. One function serves greedy, sampled, hit,
miss and every fallback, since a proposal carries its law. Shapes: J = d + 1 rows of p, K = d proposed tokens, V
vocabulary; leading batch dimensions are allowed where `...` stands.
Must not know: caches, drafts, where the uniforms come from. Tests: tests/algorithm/test_verify.py, test_lossless.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from saguaro.algorithm.agreement import verify_shared_noise as verify_shared_noise
from saguaro.algorithm.sampling import draw_from_law, uniform
from saguaro.algorithm.terms import DenseLaw, Outcome, PointMassLaw, Proposal, UniformLaw
from saguaro.errors import ProtocolError


def verify_rejection(
    p_JV: torch.Tensor,
    proposal: Proposal,
    *,
    accept_uniforms: Sequence[float],
    residual_uniforms: Sequence[float],
) -> Outcome:
    """Accept each token with probability min(1, p/q), then draw the bonus token.

    Args:
        p_JV: the target's law at each of the d + 1 positions.
        proposal: d tokens with the law they were drawn from.
        accept_uniforms: d numbers in (0, 1), one for each token's acceptance.
        residual_uniforms: d + 1 numbers in (0, 1): entry k is used if the bonus token falls at position k.

    Returns:
        The outcome. A row of p that holds NaN is rejected and gives the bonus token `sampling.BROKEN_ROW`.
    """
    for i, token in enumerate(proposal.tokens):
        p = float(p_JV[i, token]) if token < p_JV.shape[-1] else 0.0
        q = probability(proposal, i)
        if not is_accepted(p, q, uniform=accept_uniforms[i]):
            rest_V = residual(p_JV[i], draft_row(proposal, i, like_V=p_JV[i]))
            return Outcome(i, draw_from_law(rest_V[None], [residual_uniforms[i]])[0])
    depth = proposal.depth
    return Outcome(depth, draw_from_law(p_JV[depth : depth + 1], [residual_uniforms[depth]])[0])


def is_accepted(p: float, q: float, *, uniform: float) -> bool:
    """Whether a token of probabilities p and q is accepted: u * q < p, so p = 0 is never accepted, not even at u = 0.

    p >= q is tested first: rounding must not reject a token that is accepted with certainty.
    """
    return p > 0 and (p >= q or uniform * q < p)


def acceptance(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """min(1, p/q) elementwise, the measure of the uniforms that `is_accepted` accepts; 1 where q = 0 < p."""
    return torch.where(p >= q, (p > 0).to(p.dtype), p / q.clamp_min(torch.finfo(q.dtype).tiny))


def residual(p_V: torch.Tensor, q_V: torch.Tensor) -> torch.Tensor:
    """The residual law max(p - q, 0), normalised; (..., V).

    Where rounding leaves nothing above 0 (p and q equal), a rejection cannot happen in exact arithmetic and p is
    returned.
    """
    rest_V = (p_V - q_V).clamp_min(0.0)
    mass = rest_V.sum(dim=-1, keepdim=True)
    return torch.where(mass == 0, p_V, rest_V / mass)


def outcome_law(p_JV: torch.Tensor, draft_tokens_K: torch.Tensor, q_KV: torch.Tensor) -> torch.Tensor:
    """The law of the outcome given the drafted tokens: entry (k, t) is P(k accepted, bonus t).

    What `verify_rejection` does, summed over its uniforms; used to enumerate and to simulate rounds.

    Args:
        p_JV: (..., K + 1, V).
        draft_tokens_K: (..., K) int64.
        q_KV: (..., K, V), the law each token was drawn from.

    Returns:
        (..., K + 1, V), summing to 1 over the last two dimensions.
    """
    drafted_K1 = draft_tokens_K[..., None]
    p_K, q_K = p_JV[..., :-1, :].gather(-1, drafted_K1)[..., 0], q_KV.gather(-1, drafted_K1)[..., 0]
    accept_K = acceptance(p_K, q_K)
    reach_K = torch.cat([torch.ones_like(p_JV[..., :1, 0]), accept_K.cumprod(dim=-1)], dim=-1)
    rejected_KV = (reach_K[..., :-1] * (1 - accept_K))[..., None] * residual(p_JV[..., :-1, :], q_KV)
    return torch.cat([rejected_KV, reach_K[..., -1:, None] * p_JV[..., -1:, :]], dim=-2)


def probability(proposal: Proposal, index: int) -> float:
    """The q of token `index` of the proposal under the law it was drawn from."""
    law = proposal.law
    if isinstance(law, PointMassLaw):
        return 1.0
    if isinstance(law, UniformLaw):
        return 1.0 / law.vocab
    if isinstance(law, DenseLaw):
        return float(law.q_KV[index, proposal.tokens[index]])
    raise ProtocolError("a proposal without its law cannot be verified by rejection; send the law along.")


def draft_row(proposal: Proposal, index: int, *, like_V: torch.Tensor) -> torch.Tensor:
    """The q over the vocabulary at token `index`, in the type and length of `like_V`.

    A draft whose vocabulary is shorter than the target's gives the ids beyond it probability 0.
    """
    law = proposal.law
    if isinstance(law, DenseLaw) and law.q_KV.shape[-1] == len(like_V):
        return law.q_KV[index].to(like_V.dtype)
    q_V = torch.zeros_like(like_V)
    if isinstance(law, DenseLaw):
        shared = min(law.q_KV.shape[-1], len(like_V))
        q_V[:shared] = law.q_KV[index, :shared]
    elif isinstance(law, UniformLaw):
        q_V[: law.vocab] = 1.0 / law.vocab
    else:
        q_V[proposal.tokens[index]] = 1.0
    return q_V


def rejection_uniforms(
    seed: int, choice: int, *, position: int, round_number: int, branch: tuple[int, int] | None, depth: int
) -> tuple[list[float], list[float]]:
    """The numbers that `verify_rejection` takes for one round of one row.

    Args:
        seed: the request's key.
        choice: index of the choice.
        position: absolute position of the first proposed token.
        round_number: number of this verification.
        branch: the outcome that the proposal was prepared for, or None for a fallback.
        depth: d, the number of proposed tokens.

    Returns:
        d numbers for acceptance and d + 1 for the bonus token.
    """
    accept = [
        uniform(seed, choice, position=position + i, round_number=round_number, branch=branch, purpose="accept")
        for i in range(depth)
    ]
    rest = [
        uniform(seed, choice, position=position + i, round_number=round_number, branch=branch, purpose="residual")
        for i in range(depth + 1)
    ]
    return accept, rest
