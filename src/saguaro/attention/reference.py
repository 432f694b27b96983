"""Attention in plain torch, one token after another: slow, obvious, the oracle of every other back-end.

Scores, softmax and sums are float64 on what the pools hold; a query is rounded to nothing. Row independence holds
because each token is computed alone. Must not know: kernels, threads. Tests: tests/conformance/test_attention.py.
"""

from __future__ import annotations

import torch

from saguaro.attention.base import AttentionPlan, AttentionWeights


class ReferenceAttention:
    """See `base.AttentionBackend`. Works on any device torch knows."""

    def __init__(self, weights: AttentionWeights, *, team: object = None) -> None:
        self.weights = weights

    def attend(
        self,
        qkv_TN: torch.Tensor,
        plan: AttentionPlan,
        *,
        k_pool_SGD: torch.Tensor,
        v_pool_SGD: torch.Tensor,
        out_TA: torch.Tensor,
    ) -> None:
        """See `base.AttentionBackend.attend`."""
        w = self.weights
        tokens, size = qkv_TN.shape[0], w.head_dim
        heads_THD = qkv_TN.view(tokens, w.num_heads + 2 * w.num_kv_heads, size)
        q_THD, k_TGD, v_TGD = heads_THD.split((w.num_heads, w.num_kv_heads, w.num_kv_heads), dim=1)
        cos_T1E, sin_T1E = (table_PE[plan.positions_T.long()].unsqueeze(1) for table_PE in (w.cos_PE, w.sin_PE))
        q_THD = rotate(normalise(q_THD, w.q_norm_D, w.eps), cos_T1E, sin_T1E)
        k_TGD = rotate(normalise(k_TGD, w.k_norm_D, w.eps), cos_T1E, sin_T1E)
        slots_T = plan.slots_T.long()
        k_pool_SGD[slots_T] = k_TGD.to(k_pool_SGD.dtype)
        v_pool_SGD[slots_T] = v_TGD.to(v_pool_SGD.dtype)
        scale = size**-0.5 if w.scale is None else w.scale
        group = w.num_heads // w.num_kv_heads
        for token in range(tokens):
            seen_L = torch.tensor(plan.slots_seen(token), device=qkv_TN.device)
            k_HLD = k_pool_SGD[seen_L].double().transpose(0, 1).repeat_interleave(group, dim=0)
            v_HLD = v_pool_SGD[seen_L].double().transpose(0, 1).repeat_interleave(group, dim=0)
            scores_HL = torch.einsum("hd,hld->hl", q_THD[token].double() * scale, k_HLD)
            mixed_HD = torch.einsum("hl,hld->hd", scores_HL.softmax(dim=-1), v_HLD)
            out_TA[token] = mixed_HD.reshape(-1).to(out_TA.dtype)


def normalise(x_THD: torch.Tensor, norm_D: torch.Tensor | None, eps: float) -> torch.Tensor:
    """RMS norm of each head, in float32; x itself where there is no norm."""
    if norm_D is None:
        return x_THD
    return x_THD * torch.rsqrt(x_THD.square().mean(dim=-1, keepdim=True) + eps) * norm_D


def rotate(x_THD: torch.Tensor, cos_T1E: torch.Tensor, sin_T1E: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (x[i], x[i + D/2]) by the angle of position and i."""
    a_THE, b_THE = x_THD.chunk(2, dim=-1)
    return torch.cat((a_THE * cos_T1E - b_THE * sin_T1E, b_THE * cos_T1E + a_THE * sin_T1E), dim=-1)
