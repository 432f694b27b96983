"""The operations that a decoder is made of. All activations are float32; what differs is how weights are kept.

Letters: T packed tokens, R rows, V vocabulary, H hidden size, N outputs, K inputs of a linear layer.
Roles of a linear: "qkv" (query, key, value rows stacked), "o", "gate_up" (gate rows, then up rows), "down", "head".
Must not know: families, files, plans. Tests: tests/conformance/test_models.py, tests/models/test_layers.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from saguaro.attention.base import AttentionBackend, AttentionWeights

ROLES = ("qkv", "o", "gate_up", "down", "head")


class Linear(Protocol):
    """Weights of one linear layer in whatever form its operations like."""

    out_features: int
    in_features: int

    @property
    def nbytes(self) -> int:
        """Bytes that one call reads."""
        ...


@dataclass(frozen=True, eq=False)
class StoredLinear:
    """A packed linear as plain tensors, to be written to a file and restored from it."""

    kind: str
    out_features: int
    in_features: int
    tensors: dict[str, torch.Tensor]


class LayerOps(Protocol):
    """One way to compute.

    Attributes:
        kind: how weights are kept: "float32", "bfloat16", "int8" or "int4".
        pool_dtype: element type of keys and values.
        layout: names the packed form in cache files; empty where packing costs nothing and nothing is cached.
    """

    kind: str
    pool_dtype: torch.dtype
    layout: str

    def pack(self, weight_NK: torch.Tensor, bias_N: torch.Tensor | None = None, *, role: str) -> Linear:
        """Weights for `norm_linear`, `linear_add` and `mlp_add`; may keep a reference to the tensor given."""
        ...

    def store(self, linear: Any) -> StoredLinear:
        """The packed form as tensors."""
        ...

    def restore(self, stored: StoredLinear) -> Linear:
        """The inverse of `store`; uses the tensors where they are."""
        ...

    def select(self, linear: Any, rows_N: torch.Tensor) -> Linear:
        """A new linear of some outputs (int64), in this order, with the bits that they have."""
        ...

    def copy_rows(self, source: Any, source_N: torch.Tensor, target: Any, target_N: torch.Tensor) -> None:
        """Output target_N[i] of `target` becomes output source_N[i] of `source`, in place.

        Raises:
            IndexError: a row that there is not.
        """
        ...

    def vector(self, values_N: torch.Tensor) -> torch.Tensor:
        """A norm's weights or a table of angles, where and how the operations want them."""
        ...

    def table(self, weight_VH: torch.Tensor) -> torch.Tensor:
        """An embedding for `embed`."""
        ...

    def embed(self, table_VH: torch.Tensor, tokens_T: torch.Tensor) -> torch.Tensor:
        """Rows of the embedding as a fresh float32 (T, H).

        Raises:
            IndexError: a token that is no row of the table.
        """
        ...

    def norm_linear(
        self, x_TH: torch.Tensor, norm_H: torch.Tensor | None, eps: float, linear: Any, out_TN: torch.Tensor
    ) -> None:
        """Compute out = linear(rms_norm(x) * norm) + bias; without norm: linear(x) + bias."""
        ...

    def linear_add(self, x_TH: torch.Tensor, a_TK: torch.Tensor, linear: Any) -> None:
        """Compute x += linear(a) + bias, in place."""
        ...

    def mlp_add(self, x_TH: torch.Tensor, norm_H: torch.Tensor, eps: float, gate_up: Any, down: Any) -> None:
        """Compute x += down(silu(gate) * up) with gate and up from one product on the normed x, in place."""
        ...

    def attention(self, weights: AttentionWeights) -> AttentionBackend:
        """Attention of one layer over the paged pool."""
        ...

    def empty(self, rows: int, columns: int) -> torch.Tensor:
        """A float32 tensor for results."""
        ...
