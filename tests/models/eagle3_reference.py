"""An EAGLE-3 head written once more, one pair at a time and in plain tensors, from the published description."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import silu

from saguaro.attention.base import AttentionPlan
from saguaro.execution.kv_pool import KVPool
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.decoder import Decoder


def normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x / (x.pow(2).mean() + eps).sqrt() * weight


class NaiveHead:
    """A head of one layer under the authors' names; pairs so far are in `keys` and `values`."""

    def __init__(self, tensors: dict[str, torch.Tensor], config: dict[str, Any], embedding_VH: torch.Tensor) -> None:
        self.t = tensors
        self.eps = config["rms_norm_eps"]
        self.heads, self.kv = config["num_attention_heads"], config["num_key_value_heads"]
        self.size = config.get("head_dim", config["hidden_size"] // self.heads)
        self.embedding = tensors.get("embed_tokens.weight", embedding_VH)
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        rows = len(tensors["lm_head.weight"])
        self.ids = torch.arange(rows) + tensors.get("d2t", torch.zeros(rows, dtype=torch.int64))

    def fuse(self, taps: torch.Tensor) -> torch.Tensor:
        return self.t["fc.weight"] @ taps

    def rotate(self, x_AD: torch.Tensor, position: int) -> torch.Tensor:
        half = self.size // 2
        angles = position * 10000.0 ** (-torch.arange(half) / half)
        low, high = x_AD[:, :half], x_AD[:, half:]
        return torch.cat([low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()], dim=1)

    def pair(self, token: int, hidden: torch.Tensor) -> torch.Tensor:
        """The state of the next pair."""
        t, position = self.t, len(self.keys)
        both = torch.cat(
            [
                normed(self.embedding[token], t["midlayer.input_layernorm.weight"], self.eps),
                normed(hidden, t["midlayer.hidden_norm.weight"], self.eps),
            ]
        )
        q, k, v = (
            (t[f"midlayer.self_attn.{w}_proj.weight"] @ both).view(count, self.size)
            for w, count in (("q", self.heads), ("k", self.kv), ("v", self.kv))
        )
        self.keys.append(self.rotate(k, position))
        self.values.append(v)
        q = self.rotate(q, position)
        out = []
        for head in range(self.heads):
            own = head // (self.heads // self.kv)
            scores = torch.stack([q[head] @ key[own] for key in self.keys]) / math.sqrt(self.size)
            out.append(torch.softmax(scores, 0) @ torch.stack([value[own] for value in self.values]))
        x = hidden + t["midlayer.self_attn.o_proj.weight"] @ torch.cat(out)
        inner = normed(x, t["midlayer.post_attention_layernorm.weight"], self.eps)
        gate, up = t["midlayer.mlp.gate_proj.weight"] @ inner, t["midlayer.mlp.up_proj.weight"] @ inner
        return x + t["midlayer.mlp.down_proj.weight"] @ (silu(gate) * up)

    def best(self, state: torch.Tensor) -> int:
        """The target's id of the likeliest token after a pair."""
        logits = self.t["lm_head.weight"] @ normed(state, self.t["norm.weight"], self.eps)
        return int(self.ids[logits.argmax()])

    def propose(self, tokens: Sequence[int], taps_TW: torch.Tensor, count: int, *, known: int) -> list[int]:
        """Greedy tokens behind `tokens`, of which the first `known` have taps."""
        self.keys, self.values = [], []
        state = torch.zeros(0)
        for place, token in enumerate(tokens[1:]):
            state = self.pair(token, self.fuse(taps_TW[place]) if place < known else state)
        found: list[int] = []
        while len(found) < count:
            found.append(self.best(state))
            state = self.pair(found[-1], state)
        return found


def taps_of(source: str, layers: tuple[int, ...], tokens: Sequence[int]) -> torch.Tensor:
    """The inputs of some layers of a target, side by side (T, W) float32, rounded as they travel."""
    model = build_model(open_checkpoint(source), make_ops("native", "float32"))
    assert isinstance(model, Decoder)
    model.tap_layers = layers
    count = len(tokens)
    arange_T = torch.arange(count, dtype=torch.int32)
    plan = AttentionPlan(
        positions_T=arange_T,
        slots_T=arange_T,
        row_T=torch.zeros(count, dtype=torch.int32),
        tables_RP=torch.zeros(1, 1, dtype=torch.int32),
        shared_T=arange_T + 1,
        own_TS=torch.zeros(count, 1, dtype=torch.int32),
        own_count_T=torch.zeros(count, dtype=torch.int32),
        page_size=128,
    )
    with torch.inference_mode():
        model.forward(torch.tensor(list(tokens)), plan, KVPool(model.config, 128, torch.float32))
        return model.taps().float()
