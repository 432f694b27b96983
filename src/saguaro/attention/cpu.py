"""Attention by the C kernels of `saguaro.native`: keys gathered once for all queries that share them.

Pointers into a plan are made once a plan and kept with it; pointers into pools once a layer and pool.
Must not know: models, sequences. Tests: tests/conformance/test_attention.py, tests/native/test_attention.py.
"""

from __future__ import annotations

import torch

from saguaro.attention.base import AttentionPlan, AttentionWeights
from saguaro.native import AttentionLayer, PlanView, Team, rope_write_attend

_VIEW = "_native_view"


class CpuAttention:
    """See `base.AttentionBackend`.

    `team`: threads that share the work; None computes in the calling thread.
    """

    def __init__(self, weights: AttentionWeights, *, team: Team | None = None) -> None:
        self.weights = weights
        self.team = team
        self._layer: AttentionLayer | None = None
        self._pools: tuple[torch.Tensor, torch.Tensor] | None = None

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
        layer, pools = self._layer, self._pools
        if layer is None or pools is None or pools[0] is not k_pool_SGD or pools[1] is not v_pool_SGD:
            layer = self._bind(k_pool_SGD, v_pool_SGD)
        rope_write_attend(qkv_TN, layer, plan_view(plan), out_TA, team=self.team)

    def _bind(self, k_pool_SGD: torch.Tensor, v_pool_SGD: torch.Tensor) -> AttentionLayer:
        w = self.weights
        expected = (w.num_kv_heads, w.head_dim)
        if k_pool_SGD.shape[1:] != expected:
            raise ValueError(f"pools hold heads of shape {tuple(k_pool_SGD.shape[1:])}, not {expected}")
        layer = AttentionLayer(
            num_heads=w.num_heads,
            k_pool_SGD=k_pool_SGD,
            v_pool_SGD=v_pool_SGD,
            cos_PE=w.cos_PE,
            sin_PE=w.sin_PE,
            q_norm_D=w.q_norm_D,
            k_norm_D=w.k_norm_D,
            eps=w.eps,
            scale=w.scale,
        )
        self._layer, self._pools = layer, (k_pool_SGD, v_pool_SGD)
        return layer


def plan_view(plan: AttentionPlan) -> PlanView:
    """The plan's pointers; made on first use, then kept with the plan (its tensors never change place)."""
    view = plan.__dict__.get(_VIEW)
    if view is None:
        view = PlanView(
            positions_T=plan.positions_T,
            slots_T=plan.slots_T,
            row_T=plan.row_T,
            tables_RP=plan.tables_RP,
            shared_T=plan.shared_T,
            own_TS=plan.own_TS,
            own_count_T=plan.own_count_T,
            page_size=plan.page_size,
        )
        plan.__dict__[_VIEW] = view
    return view
