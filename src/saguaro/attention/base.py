"""Which keys each token sees, and where its own key and value go; what an attention back-end must do.

Keys of a token, in this order: positions 0 ... shared-1 of its row, found through the row's page table, then the `own`
slots (tree mode: the tokens of its own branch, itself included). Extend mode is shared = position + 1 and no own slots.
All keys and values of a call are written before any is read.

Keys are visited in blocks of KEY_BLOCK, those of the page table first. Where `shared` is a multiple of it and the own
slots hold the positions that follow, the blocks are those of extend mode, and so is the result, bit for bit.

A back-end must give bitwise the same row whatever other tokens are in the call (D2), and read no slot that a token
does not see (a value that is not a number stays with the tokens that see it).
Must not know: models, sequences, schedulers. Tests: tests/conformance/test_attention.py, tests/attention/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

KEY_BLOCK = 64


@dataclass(frozen=True)
class AttentionPlan:
    """One call's tokens, packed (T); all tensors int32 and contiguous.

    positions_T: position for the rotary embedding. slots_T: slot where the token's key and value are written.
    row_T: row of `tables_RP` of each token. tables_RP: page ids, padded with 0; slot = page * page_size + offset.
    shared_T: leading positions seen through the table. own_TS, own_count_T: further slots seen, in order; S may be 0.
    """

    positions_T: torch.Tensor
    slots_T: torch.Tensor
    row_T: torch.Tensor
    tables_RP: torch.Tensor
    shared_T: torch.Tensor
    own_TS: torch.Tensor
    own_count_T: torch.Tensor
    page_size: int

    def slots_seen(self, token: int) -> list[int]:
        """All slots that one packed token sees, in the order in which keys are visited."""
        shared, page_size = int(self.shared_T[token]), self.page_size
        table = self.tables_RP[int(self.row_T[token])].tolist()
        through_table = [table[p // page_size] * page_size + p % page_size for p in range(shared)]
        return through_table + self.own_TS[token, : int(self.own_count_T[token])].tolist()


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """What one layer brings to attention.

    cos_PE, sin_PE: float32 (positions, D/2), rotation of halves. q_norm_D, k_norm_D: RMS norm of each head (Qwen3), or
    None. scale: None means head_dim ** -0.5.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    cos_PE: torch.Tensor
    sin_PE: torch.Tensor
    q_norm_D: torch.Tensor | None = None
    k_norm_D: torch.Tensor | None = None
    eps: float = 1e-6
    scale: float | None = None


class AttentionBackend(Protocol):
    """Attention of one layer; built from its weights, called once a forward pass."""

    def __init__(self, weights: AttentionWeights, *, team: Any = None) -> None: ...

    def attend(
        self,
        qkv_TN: torch.Tensor,
        plan: AttentionPlan,
        *,
        k_pool_SGD: torch.Tensor,
        v_pool_SGD: torch.Tensor,
        out_TA: torch.Tensor,
    ) -> None:
        """Normalise and rotate q and k, write k and v to their slots, attend, write `out_TA`.

        qkv_TN: float32, N = (num_heads + 2 num_kv_heads) * head_dim: query heads, key heads, value heads.
        Pools: float32 or bfloat16 (slots, kv heads, D), written in place. out_TA: float32, A = num_heads * head_dim.
        """
        ...
