"""Sizes of a model from its config.json: what a pass reads, computes and keeps.

Counts only what decides speed: weights of the linear layers and the head, keys and values. The embedding is looked up,
so it is stored but not read. Must not know: weights, how a model computes. Tests: tests/simulate/test_shapes.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saguaro.errors import ConfigError
from saguaro.registry import nearest, unknown

BYTES_BY_DTYPE = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}


@dataclass(frozen=True)
class ModelShape:
    """Dimensions of a dense decoder.

    Args:
        name: for people.
        layers, hidden, heads, kv_heads, head_dim, ffn, vocab: as in its config.json.
        tied: the head is the embedding.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool

    @property
    def embedding(self) -> int:
        """Weights of the embedding, which is also the head of a tied model."""
        return self.vocab * self.hidden

    @property
    def layer(self) -> int:
        """Weights of one layer: q, k, v and o, gate, up and down."""
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self.head_dim
        return attention + 3 * self.hidden * self.ffn

    @property
    def read(self) -> int:
        """Weights that every pass reads: all layers and the head."""
        return self.layers * self.layer + self.embedding

    @property
    def stored(self) -> int:
        """Weights that must fit into memory."""
        return self.read + (0 if self.tied else self.embedding)

    @property
    def flops_per_token(self) -> float:
        """Two operations for each weight that is read."""
        return 2.0 * self.read

    def kv_bytes_per_token(self, value_bytes: float = 2.0) -> float:
        """Keys and values that one token keeps, over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * value_bytes


def _shape(
    name: str, layers: int, hidden: int, heads: tuple[int, int, int], ffn: int, vocab: int, tied: bool
) -> ModelShape:
    return ModelShape(name, layers, hidden, *heads, ffn, vocab, tied)


LLAMA, QWEN, QWEN_LARGE, SMOL = 128_256, 151_936, 152_064, 49_152
PRESETS: dict[str, ModelShape] = {
    shape.name: shape
    for shape in (
        _shape("llama-3.1-8b", 32, 4096, (32, 8, 128), 14336, LLAMA, False),
        _shape("llama-3.1-70b", 80, 8192, (64, 8, 128), 28672, LLAMA, False),
        _shape("llama-3.3-70b", 80, 8192, (64, 8, 128), 28672, LLAMA, False),
        _shape("llama-3.2-1b", 16, 2048, (32, 8, 64), 8192, LLAMA, True),
        _shape("llama-3.2-3b", 28, 3072, (24, 8, 128), 8192, LLAMA, True),
        _shape("qwen3-0.6b", 28, 1024, (16, 8, 128), 3072, QWEN, True),
        _shape("qwen3-1.7b", 28, 2048, (16, 8, 128), 6144, QWEN, True),
        _shape("qwen3-4b", 36, 2560, (32, 8, 128), 9728, QWEN, True),
        _shape("qwen3-8b", 36, 4096, (32, 8, 128), 12288, QWEN, False),
        _shape("qwen3-14b", 40, 5120, (40, 8, 128), 17408, QWEN, False),
        _shape("qwen3-32b", 64, 5120, (64, 8, 128), 25600, QWEN, False),
        _shape("qwen2.5-0.5b", 24, 896, (14, 2, 64), 4864, QWEN, True),
        _shape("qwen2.5-1.5b", 28, 1536, (12, 2, 128), 8960, QWEN, True),
        _shape("qwen2.5-7b", 28, 3584, (28, 4, 128), 18944, QWEN_LARGE, False),
        _shape("smollm2-135m", 30, 576, (9, 3, 64), 1536, SMOL, True),
    )
}
"""Public dimensions, from the config.json files of the models."""


def open_shape(source: str) -> ModelShape:
    """The shape of a preset, of a config.json, or of a folder that holds one.

    Raises:
        ConfigError: for an unknown name, a file that cannot be read, or a model that is no dense decoder.
    """
    if source.lower() in PRESETS:
        return PRESETS[source.lower()]
    path = Path(source)
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        hint = nearest(source.lower(), PRESETS) or "."
        known = ", ".join(PRESETS)
        raise ConfigError(f"{source!r} is neither a config.json nor a named model{hint} Named are: {known}.")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as JSON: {error}.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds no object; a config.json describes one model.")
    return from_config(values, name=path.parent.name or path.stem)


def from_config(config: Mapping[str, Any], *, name: str) -> ModelShape:
    """The shape that a config.json describes.

    Raises:
        ConfigError: when a size is missing, or the model has experts.
    """
    experts = config.get("num_experts") or config.get("num_local_experts") or config.get("n_routed_experts")
    if experts:
        raise ConfigError(f"{name} has {experts} experts; the planner computes dense models only.")

    def need(key: str) -> int:
        value = config.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"the config.json of {name} lacks a whole number for {key!r}.")
        return value

    hidden, heads = need("hidden_size"), need("num_attention_heads")
    # Qwen 3 fixes 128 where its files leave it out; elsewhere it is the quotient.
    quotient = 128 if config.get("model_type") == "qwen3" else hidden // heads
    return ModelShape(
        name=name,
        layers=need("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or quotient,
        ffn=need("intermediate_size"),
        vocab=need("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
    )


def bytes_of(dtype: str) -> float:
    """Bytes of a weight.

    Raises:
        ConfigError: for an unknown dtype.
    """
    if dtype not in BYTES_BY_DTYPE:
        raise unknown("dtype", dtype, BYTES_BY_DTYPE)
    return BYTES_BY_DTYPE[dtype]
