"""Plain PyTorch, on any device: the oracle that every other member is compared with.

With kind float32 everything is float32. With bfloat16, weights and the inputs of linears are rounded to bfloat16, the
residual stream, norms and softmax stay float32. Rows of a result may depend on the number of rows beside them in the
last bits. Must not know: families, files. Tests: tests/conformance/test_models.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from saguaro.attention import ATTENTION, AttentionBackend, AttentionWeights
from saguaro.errors import ConfigError
from saguaro.models.layers.base import StoredLinear

KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, eq=False)
class TorchLinear:
    """Weights as they are, on their device."""

    weight_NK: torch.Tensor
    bias_N: torch.Tensor | None

    @property
    def out_features(self) -> int:
        """N."""
        return self.weight_NK.shape[0]

    @property
    def in_features(self) -> int:
        """K."""
        return self.weight_NK.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return self.weight_NK.nbytes


class TorchOps:
    """See `LayerOps`.

    Raises:
        ConfigError: a kind that plain PyTorch does not compute here.
    """

    layout = ""

    def __init__(self, kind: str = "float32", *, device: str | torch.device = "cpu") -> None:
        if kind not in KINDS:
            raise ConfigError(f"the 'torch' operations compute in {' or '.join(KINDS)}, not {kind!r}.")
        self.kind = kind
        self.pool_dtype = KINDS[kind]
        self._dtype = KINDS[kind]
        self._device = torch.device(device)

    def pack(self, weight_NK: torch.Tensor, bias_N: torch.Tensor | None = None, *, role: str) -> TorchLinear:
        """Move and round; nothing is reordered."""
        bias = None if bias_N is None else self.vector(bias_N)
        return TorchLinear(weight_NK.to(self._device, self._dtype), bias)

    def store(self, linear: TorchLinear) -> StoredLinear:
        """The two tensors."""
        tensors = {"weight": linear.weight_NK} | ({} if linear.bias_N is None else {"bias": linear.bias_N})
        return StoredLinear(self.kind, linear.out_features, linear.in_features, tensors)

    def restore(self, stored: StoredLinear) -> TorchLinear:
        """From the two tensors."""
        return TorchLinear(stored.tensors["weight"], stored.tensors.get("bias"))

    def select(self, linear: TorchLinear, rows_N: torch.Tensor) -> TorchLinear:
        """Rows of the matrix, copied."""
        bias = None if linear.bias_N is None else linear.bias_N[rows_N]
        return TorchLinear(linear.weight_NK[rows_N], bias)

    def copy_rows(
        self, source: TorchLinear, source_N: torch.Tensor, target: TorchLinear, target_N: torch.Tensor
    ) -> None:
        """Rows of the matrix, copied."""
        target.weight_NK[target_N] = source.weight_NK[source_N]
        if target.bias_N is not None and source.bias_N is not None:
            target.bias_N[target_N] = source.bias_N[source_N]

    def vector(self, values_N: torch.Tensor) -> torch.Tensor:
        """Float32 on the device."""
        return values_N.to(self._device, torch.float32)

    def table(self, weight_VH: torch.Tensor) -> torch.Tensor:
        """In the dtype of the weights."""
        return weight_VH.to(self._device, self._dtype)

    def embed(self, table_VH: torch.Tensor, tokens_T: torch.Tensor) -> torch.Tensor:
        """Rows as float32."""
        return table_VH.index_select(0, tokens_T.to(self._device)).to(torch.float32, copy=True)

    def norm_linear(
        self, x_TH: torch.Tensor, norm_H: torch.Tensor | None, eps: float, linear: TorchLinear, out_TN: torch.Tensor
    ) -> None:
        """Compute out = linear(rms_norm(x) * norm) + bias."""
        normed_TH = x_TH if norm_H is None else functional.rms_norm(x_TH, (x_TH.shape[-1],), norm_H, eps)
        out_TN.copy_(self._linear(normed_TH, linear))

    def linear_add(self, x_TH: torch.Tensor, a_TK: torch.Tensor, linear: TorchLinear) -> None:
        """Compute x += linear(a) + bias."""
        x_TH.add_(self._linear(a_TK, linear))

    def mlp_add(
        self, x_TH: torch.Tensor, norm_H: torch.Tensor, eps: float, gate_up: TorchLinear, down: TorchLinear
    ) -> None:
        """Compute x += down(silu(gate) * up)."""
        normed_TH = functional.rms_norm(x_TH, (x_TH.shape[-1],), norm_H, eps)
        gate_TF, up_TF = self._linear(normed_TH, gate_up).chunk(2, dim=-1)
        x_TH.add_(self._linear(functional.silu(gate_TF) * up_TF, down))

    def attention(self, weights: AttentionWeights) -> AttentionBackend:
        """The reference back-end."""
        backend: AttentionBackend = ATTENTION.get("reference")(weights)
        return backend

    def empty(self, rows: int, columns: int) -> torch.Tensor:
        """On the device."""
        return torch.empty(rows, columns, dtype=torch.float32, device=self._device)

    def _linear(self, x_TK: torch.Tensor, linear: TorchLinear) -> torch.Tensor:
        out_TN = functional.linear(x_TK.to(self._dtype), linear.weight_NK).float()
        return out_TN if linear.bias_N is None else out_TN + linear.bias_N
