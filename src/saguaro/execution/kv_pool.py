"""Keys and values of all layers: one tensor, cut into slots; which slot is whose is `paging`'s business.

Shape (layers, 2, slots, kv heads, head size); float32 for dtype float32, bfloat16 otherwise. Must not know: rows,
requests, branches. Tests: tests/execution/test_kv_pool.py.
"""

from __future__ import annotations

import torch

from saguaro.models.config import ModelConfig


class KVPool:
    """The tensor. `k[layer]` and `v[layer]` are its layers, each (slots, kv heads, head size)."""

    def __init__(self, config: ModelConfig, num_slots: int, dtype: torch.dtype) -> None:
        shape = (max(1, config.num_layers), 2, num_slots, config.num_kv_heads, config.head_dim)
        self.data = torch.zeros(shape, dtype=dtype)
        self.num_slots = num_slots
        self.k = [self.data[layer, 0] for layer in range(shape[0])]
        self.v = [self.data[layer, 1] for layer in range(shape[0])]

    def move(self, sources: list[int], targets: list[int]) -> None:
        """Copy slots; used when a branch becomes the row's own tail (DESIGN D5)."""
        if sources:
            self.data[:, :, targets] = self.data[:, :, sources]
