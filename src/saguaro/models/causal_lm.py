"""What every model offers to those who run it, and what it needs of a key-value pool.

Letters: T packed tokens, R rows, H hidden size, V logit rows. Must not know: files, operations, rounds.
Tests: tests/conformance/test_models.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from saguaro.attention.base import AttentionPlan
from saguaro.models.config import ModelConfig
from saguaro.models.short_head import ShortHead


class LayerPool(Protocol):
    """Keys and values of all layers, written in place."""

    @property
    def k(self) -> Sequence[torch.Tensor]:
        """`k[layer]` is (slots, kv heads, head_dim)."""
        ...

    @property
    def v(self) -> Sequence[torch.Tensor]:
        """`v[layer]` is (slots, kv heads, head_dim)."""
        ...


class CausalLM(Protocol):
    """Tokens in, hidden states and logits out.

    Attributes:
        config: sizes; `config.num_layers`, `num_kv_heads` and `head_dim` say what pool is needed.
        pool_dtype: element type of that pool.
        max_positions: positions that the model can be asked for are 0 ... max_positions - 1.
        short_head: the head where it has some of the vocabulary only (of a draft); None where column = id.
        weight_bytes: bytes of weights that one pass with logits reads; divided by bandwidth, a floor on its time.
    """

    config: ModelConfig
    pool_dtype: torch.dtype
    max_positions: int
    short_head: ShortHead | None
    weight_bytes: int

    def forward(
        self,
        tokens_T: torch.Tensor,
        plan: AttentionPlan,
        pool: LayerPool,
        *,
        interrupt: Callable[[], bool] | None = None,
    ) -> torch.Tensor | None:
        """Hidden states (T, H) float32 before the final norm; None when `interrupt` said True between two layers."""
        ...

    def logits(self, hidden_RH: torch.Tensor) -> torch.Tensor:
        """Logits (R, V) float32, or (R, S) of a short head, of some rows of what `forward` returned."""
        ...
