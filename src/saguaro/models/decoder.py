"""The one decoder: Llama, Qwen2 and Qwen3 are settings of it. Speculation-blind.

    x = embedding[tokens]
    for every layer:  x += o(attend(rope(qkv(norm(x)))))      one product for q, k, v; Qwen3 norms every head of q and k
                      x += down(silu(gate(norm(x))) * up(norm(x)))
    logits = head(norm(x))

It is written over the operations of `layers/`, so that the same lines run as plain PyTorch and as CPU kernels. Letters:
T packed tokens, R rows, H hidden size, N rows of q, k and v, A query heads x head size, V logit rows.
Must not know: requests, rounds, who drafts. Tests: tests/models/test_decoder.py, tests/conformance/test_models.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from saguaro.attention.base import AttentionBackend, AttentionPlan, AttentionWeights
from saguaro.models.causal_lm import LayerPool
from saguaro.models.config import ModelConfig
from saguaro.models.layers.base import LayerOps, Linear
from saguaro.models.rope import rope_tables
from saguaro.models.short_head import ShortHead
from saguaro.models.weights.names import EMBEDDING, FINAL_NORM, HEAD, layer_name, parameters
from saguaro.models.weights.source import Ledger, WeightSource

DEFAULT_POSITIONS = 8192


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """One layer, packed."""

    input_norm_H: torch.Tensor
    qkv: Linear
    q_norm_D: torch.Tensor | None
    k_norm_D: torch.Tensor | None
    o: Linear
    post_norm_H: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, eq=False)
class DecoderWeights:
    """All weights of a decoder, packed by the operations that will use them."""

    embedding_VH: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm_H: torch.Tensor
    head: Linear

    @property
    def layer_bytes(self) -> int:
        """Bytes of linears that one forward pass reads; the head not counted."""
        parts = [part for layer in self.layers for part in (layer.qkv, layer.o, layer.gate_up, layer.down)]
        return sum(part.nbytes for part in parts)


def pack_weights(config: ModelConfig, source: WeightSource, ops: LayerOps) -> DecoderWeights:
    """Read every parameter exactly once and pack it, one layer at a time.

    Args:
        config: what to expect.
        source: the tensors.
        ops: packs them.

    Raises:
        WeightsError: a parameter is missing, of another shape, or was never used.
    """
    ledger = Ledger(source, parameters(config))

    # An untied head is done before the embedding is read: each may be a gigabyte until it is packed.
    head = None if config.tied else ops.pack(ledger.take(HEAD), role="head")
    embedding_VH = ledger.take(EMBEDDING)
    head = ops.pack(embedding_VH, role="head") if head is None else head
    table_VH = ops.table(embedding_VH)
    del embedding_VH
    layers = tuple(pack_layer(config, ledger, ops, index) for index in range(config.num_layers))
    final_norm_H = ops.vector(ledger.take(FINAL_NORM))
    ledger.close()
    return DecoderWeights(table_VH, layers, final_norm_H, head)


def pack_layer(config: ModelConfig, ledger: Ledger, ops: LayerOps, index: int) -> LayerWeights:
    """One layer, taken from the ledger."""

    def take(part: str) -> torch.Tensor:
        return ledger.take(layer_name(index, part))

    qkv_NH = torch.cat([take(f"self_attn.{which}_proj.weight") for which in "qkv"])
    bias_N = torch.cat([take(f"self_attn.{which}_proj.bias") for which in "qkv"]) if config.qkv_bias else None
    gate_up = torch.cat([take("mlp.gate_proj.weight"), take("mlp.up_proj.weight")])
    return LayerWeights(
        input_norm_H=ops.vector(take("input_layernorm.weight")),
        qkv=ops.pack(qkv_NH, bias_N, role="qkv"),
        q_norm_D=ops.vector(take("self_attn.q_norm.weight")) if config.qk_norm else None,
        k_norm_D=ops.vector(take("self_attn.k_norm.weight")) if config.qk_norm else None,
        o=ops.pack(take("self_attn.o_proj.weight"), role="o"),
        post_norm_H=ops.vector(take("post_attention_layernorm.weight")),
        gate_up=ops.pack(gate_up, role="gate_up"),
        down=ops.pack(take("mlp.down_proj.weight"), role="down"),
    )


class Decoder:
    """A decoder ready to run (see `CausalLM`).

    One caller at a time: results of layers pass through buffers that the next call reuses; what `forward` and `logits`
    return is fresh. Rows of the result depend on one another only through the plan when the operations say so.

    Args:
        config: sizes.
        weights: packed by the same kind of `ops`.
        ops: the arithmetic.
        max_positions: length of the rotary tables; by default the model's own, at most 8,192.
        short_head: runs instead of the whole head.

    Attributes:
        tap_layers: layers whose inputs are kept of each pass, for a draft that reads them (`taps`); the number of
            layers stands for what leaves the last.
    """

    tap_layers: tuple[int, ...] = ()

    def __init__(
        self,
        config: ModelConfig,
        weights: DecoderWeights,
        ops: LayerOps,
        *,
        max_positions: int | None = None,
        short_head: ShortHead | None = None,
    ) -> None:
        self.config = config
        self.weights = weights
        self.pool_dtype = ops.pool_dtype
        self.max_positions = max_positions or min(config.max_position, DEFAULT_POSITIONS)
        self.short_head = short_head
        self._head = weights.head if short_head is None else short_head.linear
        self.weight_bytes = weights.layer_bytes + self._head.nbytes
        self._ops = ops
        self._tapped: dict[int, torch.Tensor] = {}
        cos_PE, sin_PE = (ops.vector(table) for table in rope_tables(config, self.max_positions))
        self._attention = [self._attention_of(layer, cos_PE, sin_PE) for layer in weights.layers]
        self._qkv = ops.empty(0, config.qkv_rows)
        self._attended = ops.empty(0, config.num_heads * config.head_dim)

    def forward(
        self,
        tokens_T: torch.Tensor,
        plan: AttentionPlan,
        pool: LayerPool,
        *,
        interrupt: Callable[[], bool] | None = None,
    ) -> torch.Tensor | None:
        """Run packed tokens through all layers.

        Args:
            tokens_T: int64 ids below `config.vocab`.
            plan: positions below `max_positions`, where keys and values go, and what each token sees.
            pool: keys and values of all layers, written in place.
            interrupt: asked before every layer; True gives the pass up (keys and values may then be half written).

        Returns:
            Hidden states (T, H) float32 before the final norm, or None when given up.

        Raises:
            IndexError: a token or a position out of range.
        """
        if int(plan.positions_T.max()) >= self.max_positions:
            raise IndexError(f"position {int(plan.positions_T.max())} is beyond the {self.max_positions} prepared ones")
        ops, eps = self._ops, self.config.rms_eps
        x_TH = ops.embed(self.weights.embedding_VH, tokens_T)
        qkv_TN, attended_TA = self._buffers(x_TH.shape[0])
        for index, (layer, attention) in enumerate(zip(self.weights.layers, self._attention, strict=True)):
            if interrupt is not None and interrupt():
                return None
            if index in self.tap_layers:
                self._tapped[index] = x_TH.clone()
            ops.norm_linear(x_TH, layer.input_norm_H, eps, layer.qkv, qkv_TN)
            k_pool_SGD, v_pool_SGD = pool.k[index], pool.v[index]
            attention.attend(qkv_TN, plan, k_pool_SGD=k_pool_SGD, v_pool_SGD=v_pool_SGD, out_TA=attended_TA)
            ops.linear_add(x_TH, attended_TA, layer.o)
            ops.mlp_add(x_TH, layer.post_norm_H, eps, layer.gate_up, layer.down)
        if len(self.weights.layers) in self.tap_layers:
            self._tapped[len(self.weights.layers)] = x_TH
        return x_TH

    def taps(self) -> torch.Tensor:
        """The inputs of `tap_layers` in the last pass, side by side (T, W) bfloat16."""
        return torch.cat([self._tapped[index] for index in self.tap_layers], dim=1).bfloat16()

    def logits(self, hidden_RH: torch.Tensor) -> torch.Tensor:
        """Logits (R, V), or (R, S) of a short head, float32."""
        out_RV = self._ops.empty(hidden_RH.shape[0], self._head.out_features)
        norm_H, eps = self.weights.final_norm_H, self.config.rms_eps
        self._ops.norm_linear(hidden_RH.contiguous(), norm_H, eps, self._head, out_RV)
        return out_RV

    def _attention_of(self, layer: LayerWeights, cos_PE: torch.Tensor, sin_PE: torch.Tensor) -> AttentionBackend:
        return self._ops.attention(
            AttentionWeights(
                num_heads=self.config.num_heads,
                num_kv_heads=self.config.num_kv_heads,
                head_dim=self.config.head_dim,
                cos_PE=cos_PE,
                sin_PE=sin_PE,
                q_norm_D=layer.q_norm_D,
                k_norm_D=layer.k_norm_D,
                eps=self.config.rms_eps,
            )
        )

    def _buffers(self, num_tokens: int) -> tuple[torch.Tensor, ...]:
        """Room for q, k, v and for what attention returns, grown when needed and reused from layer to layer."""
        if self._qkv.shape[0] < num_tokens:
            self._qkv = self._ops.empty(num_tokens, self._qkv.shape[1])
            self._attended = self._ops.empty(num_tokens, self._attended.shape[1])
        return self._qkv[:num_tokens], self._attended[:num_tokens]
