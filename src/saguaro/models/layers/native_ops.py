"""The CPU kernels of `saguaro.native` as layer operations: packed weights, every row independent of all others (D2).

Kinds: float32, bfloat16, int8 (weights per channel, activations per row and group of 64 inputs) and int4 (weights per
channel and group of 32; for drafts). Single roles may be kept in another kind. Must not know: families, files.
Tests: tests/conformance/test_models.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import torch

from saguaro import native
from saguaro.attention import ATTENTION, AttentionBackend, AttentionWeights
from saguaro.errors import ConfigError
from saguaro.models.layers.base import ROLES, StoredLinear
from saguaro.native.build import library_path
from saguaro.registry import nearest


class NativeOps:
    """See `LayerOps`.

    Args:
        kind: how linears are kept.
        team: threads that share each call; None is the calling thread alone.
        kinds: role to kind, where a role differs from `kind`.

    Raises:
        ConfigError: an unknown kind or role.
    """

    def __init__(
        self, kind: str = "float32", *, team: native.Team | None = None, kinds: Mapping[str, str] | None = None
    ) -> None:
        self._kinds = dict.fromkeys(ROLES, kind) | dict(kinds or {})
        for role, chosen in self._kinds.items():
            if role not in ROLES:
                raise ConfigError(f"unknown role of a linear {role!r}{nearest(role, ROLES)}")
            if chosen not in native.KINDS:
                raise ConfigError(f"weights are kept as {', '.join(native.KINDS)}, not as {chosen!r}.")
        self.kind = kind
        self.pool_dtype = torch.float32 if kind == "float32" else torch.bfloat16
        self._team = team

    @cached_property
    def layout(self) -> str:
        """Kinds, and the name of the compiled kernels: a hash of sources, compiler and processor."""
        return "-".join([library_path().stem, *(self._kinds[role] for role in ROLES)])

    def pack(self, weight_NK: torch.Tensor, bias_N: torch.Tensor | None = None, *, role: str) -> native.PackedLinear:
        """Round and reorder."""
        bias = None if bias_N is None else bias_N.float().contiguous()
        return native.pack(weight_NK.contiguous(), self._kinds[role], bias_N=bias)

    def store(self, linear: native.PackedLinear) -> StoredLinear:
        """The packed tensors themselves."""
        return StoredLinear(linear.kind, linear.out_features, linear.in_features, linear.tensors)

    def restore(self, stored: StoredLinear) -> native.PackedLinear:
        """Around tensors that are already aligned."""
        return native.PackedLinear.restore(stored.kind, stored.out_features, stored.in_features, stored.tensors)

    def select(self, linear: native.PackedLinear, rows_N: torch.Tensor) -> native.PackedLinear:
        """Lanes of blocks, copied."""
        return native.select_rows(linear, rows_N)

    def copy_rows(
        self, source: native.PackedLinear, source_N: torch.Tensor, target: native.PackedLinear, target_N: torch.Tensor
    ) -> None:
        """Lanes of blocks, copied."""
        native.copy_rows(source, source_N, target, target_N)

    def vector(self, values_N: torch.Tensor) -> torch.Tensor:
        """Contiguous float32."""
        return values_N.to(torch.float32).contiguous()

    def table(self, weight_VH: torch.Tensor) -> torch.Tensor:
        """Float32 for float32, bfloat16 otherwise: a call reads only the rows of its tokens."""
        return weight_VH.to(self.pool_dtype).contiguous()

    def embed(self, table_VH: torch.Tensor, tokens_T: torch.Tensor) -> torch.Tensor:
        """Rows as float32."""
        return table_VH.index_select(0, tokens_T).to(torch.float32, copy=True)

    def norm_linear(
        self,
        x_TH: torch.Tensor,
        norm_H: torch.Tensor | None,
        eps: float,
        linear: native.PackedLinear,
        out_TN: torch.Tensor,
    ) -> None:
        """Compute out = linear(rms_norm(x) * norm) + bias."""
        native.norm_linear(x_TH, norm_H, eps, linear, out_TN, team=self._team)

    def linear_add(self, x_TH: torch.Tensor, a_TK: torch.Tensor, linear: native.PackedLinear) -> None:
        """Compute x += linear(a) + bias."""
        native.linear_add(x_TH, a_TK, linear, team=self._team)

    def mlp_add(
        self,
        x_TH: torch.Tensor,
        norm_H: torch.Tensor,
        eps: float,
        gate_up: native.PackedLinear,
        down: native.PackedLinear,
    ) -> None:
        """Compute x += down(silu(gate) * up)."""
        native.mlp_add(x_TH, norm_H, eps, gate_up, down, team=self._team)

    def attention(self, weights: AttentionWeights) -> AttentionBackend:
        """The paged CPU kernel."""
        backend: AttentionBackend = ATTENTION.get("cpu")(weights, team=self._team)
        return backend

    def empty(self, rows: int, columns: int) -> torch.Tensor:
        """Plain memory."""
        return torch.empty(rows, columns, dtype=torch.float32)
