"""An EAGLE-3 head as it computes (Li et al. 2025): a decoder of few layers over pairs of a token and a hidden state.

    hidden = fc(taps of the target at the token before)        or the head's own state there, where there are no taps
    layer 0:  x = hidden; its attention reads [norm(embedding of the token), norm(hidden)], twice as wide; the rest and
    further layers as in `decoder.py`
    state = x        logits = head(norm(x)), over the head's own vocabulary

The pair of a token stands at the position of the token before, so the rotary position of token p is p - 1. Letters: T
packed pairs, N tokens with taps, W numbers of a token's taps, H hidden size, R rows, D rows of the head. Must not know:
who drafts, rows, rounds. Tests: tests/models/test_eagle3.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import rms_norm

from saguaro.attention.base import AttentionBackend, AttentionPlan, AttentionWeights
from saguaro.models.causal_lm import LayerPool
from saguaro.models.checkpoint import Checkpoint
from saguaro.models.config import ModelConfig
from saguaro.models.decoder import LayerWeights, pack_layer
from saguaro.models.layers.base import LayerOps, Linear
from saguaro.models.rope import rope_tables
from saguaro.models.weights.names import (
    EMBEDDING,
    FINAL_NORM,
    FUSE,
    HEAD,
    INPUT_NORM,
    hidden_norm,
    parameters,
    tap_norm,
)
from saguaro.models.weights.source import Ledger


@dataclass(frozen=True, eq=False)
class Eagle3Weights:
    """All weights of a head, packed by the operations that will use them. `layers[0].qkv` has 2 H inputs."""

    embedding_VH: torch.Tensor
    hidden_norm_H: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm_H: torch.Tensor
    head: Linear
    fuse: Linear | None
    tap_norms: tuple[torch.Tensor, ...]
    input_norm_W: torch.Tensor | None


class Eagle3Head:
    """A head ready to run. One caller at a time.

    Attributes:
        config: sizes; `config.eagle3` is set.
        ids_D: int32, token of each column of the logits; None where column = id.
        pool_dtype: element type of keys and values, and of states.
        max_positions: positions are 0 ... max_positions - 1.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Eagle3Weights,
        ops: LayerOps,
        *,
        max_positions: int,
        ids_D: torch.Tensor | None = None,
    ) -> None:
        assert config.eagle3 is not None
        self.config = config
        self.shape = config.eagle3
        self.weights = weights
        self.ids_D = ids_D
        self.pool_dtype = ops.pool_dtype
        self.max_positions = max_positions
        self._ops = ops
        cos_PE, sin_PE = (ops.vector(table) for table in rope_tables(config, max_positions))
        self._attention: list[AttentionBackend] = [
            ops.attention(
                AttentionWeights(
                    config.num_heads, config.num_kv_heads, config.head_dim, cos_PE, sin_PE, eps=config.rms_eps
                )
            )
            for _ in weights.layers
        ]

    def fuse(self, taps_NW: torch.Tensor) -> torch.Tensor:
        """The hidden states (N, H) float32 that stand for taps, low layer first in each row."""
        weights, eps = self.weights, self.config.rms_eps
        taps_NW = taps_NW.float()
        if weights.tap_norms:
            parts = taps_NW.split(self.shape.target_hidden, dim=1)
            normed = [
                rms_norm(part, part.shape[-1:], norm, eps) for part, norm in zip(parts, weights.tap_norms, strict=True)
            ]
            taps_NW = torch.cat(normed, dim=1)
        elif weights.input_norm_W is not None:
            taps_NW = rms_norm(taps_NW, taps_NW.shape[-1:], weights.input_norm_W, eps)
        if weights.fuse is None:
            return taps_NW
        out_NH = self._ops.empty(taps_NW.shape[0], self.config.hidden)
        self._ops.norm_linear(taps_NW.contiguous(), None, eps, weights.fuse, out_NH)
        return out_NH

    def forward(
        self,
        tokens_T: torch.Tensor,
        hidden_TH: torch.Tensor,
        plan: AttentionPlan,
        pool: LayerPool,
        *,
        interrupt: Callable[[], bool] | None = None,
    ) -> torch.Tensor | None:
        """Run packed pairs through all layers.

        Args:
            tokens_T: int64 ids.
            hidden_TH: float32, what `fuse` or `state` gave for the token before each.
            plan: positions of the pairs, where keys and values go, and what each pair sees.
            pool: keys and values of all layers, written in place.
            interrupt: asked before every layer; True gives the pass up.

        Returns:
            Hidden states (T, H) float32 before the final norm, or None when given up.
        """
        ops, config, weights = self._ops, self.config, self.weights
        eps, width = config.rms_eps, (config.hidden,)
        normed_TH = rms_norm(hidden_TH, width, weights.hidden_norm_H, eps)
        x_TH = normed_TH.clone() if self.shape.norm_before_residual else hidden_TH.clone()
        embedded_TH = ops.embed(weights.embedding_VH, tokens_T)
        embedded_TH = rms_norm(embedded_TH, width, weights.layers[0].input_norm_H, eps)
        pairs_TI = torch.cat([embedded_TH, normed_TH], dim=1)
        qkv_TN = ops.empty(len(tokens_T), config.qkv_rows)
        attended_TA = ops.empty(len(tokens_T), config.num_heads * config.head_dim)
        for index, (layer, attention) in enumerate(zip(weights.layers, self._attention, strict=True)):
            if interrupt is not None and interrupt():
                return None
            if index == 0:
                ops.norm_linear(pairs_TI, None, eps, layer.qkv, qkv_TN)
            else:
                ops.norm_linear(x_TH, layer.input_norm_H, eps, layer.qkv, qkv_TN)
            attention.attend(qkv_TN, plan, k_pool_SGD=pool.k[index], v_pool_SGD=pool.v[index], out_TA=attended_TA)
            ops.linear_add(x_TH, attended_TA, layer.o)
            ops.mlp_add(x_TH, layer.post_norm_H, eps, layer.gate_up, layer.down)
        return x_TH

    def state(self, x_TH: torch.Tensor) -> torch.Tensor:
        """What is fed back for the next token where there are no taps: what `forward` gave, un-normed as a rule."""
        if not self.shape.norm_output:
            return x_TH
        return rms_norm(x_TH, (self.config.hidden,), self.weights.final_norm_H, self.config.rms_eps)

    def logits(self, x_RH: torch.Tensor) -> torch.Tensor:
        """Logits (R, D) float32 of some rows of what `forward` gave."""
        out_RD = self._ops.empty(x_RH.shape[0], self.config.head_rows)
        norm_H, eps = self.weights.final_norm_H, self.config.rms_eps
        self._ops.norm_linear(x_RH.contiguous(), norm_H, eps, self.weights.head, out_RD)
        return out_RD


def build_head(checkpoint: Checkpoint, target: Checkpoint, ops: LayerOps, *, max_positions: int) -> Eagle3Head:
    """Read and pack a head, every parameter exactly once.

    Args:
        checkpoint: the head.
        target: its target, whose embedding it uses where it has none.
        ops: the arithmetic.
        max_positions: positions that will be asked for.

    Raises:
        WeightsError: a parameter is missing, unknown or of another shape.
    """
    config, source = checkpoint.config, checkpoint.weights()
    shape = config.eagle3
    assert shape is not None
    ledger = Ledger(source, parameters(config))
    embedding_VH = ledger.take(EMBEDDING) if shape.own_embedding else target.weights().get(EMBEDDING)
    weights = Eagle3Weights(
        embedding_VH=ops.table(embedding_VH),
        hidden_norm_H=ops.vector(ledger.take(hidden_norm())),
        layers=tuple(pack_layer(config, ledger, ops, index) for index in range(config.num_layers)),
        final_norm_H=ops.vector(ledger.take(FINAL_NORM)),
        head=ops.pack(ledger.take(HEAD), role="head"),
        fuse=ops.pack(ledger.take(FUSE), role="qkv") if shape.fused else None,
        tap_norms=tuple(ops.vector(ledger.take(tap_norm(i))) for i in range(shape.num_taps if shape.tap_norms else 0)),
        input_norm_W=ops.vector(ledger.take(INPUT_NORM)) if shape.input_norm else None,
    )
    ledger.close()
    ids = checkpoint.draft_ids()
    ids_D = None if ids is None else torch.tensor(ids, dtype=torch.int32)
    return Eagle3Head(config, weights, ops, max_positions=max_positions, ids_D=ids_D)
