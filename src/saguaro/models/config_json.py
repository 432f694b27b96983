"""A model's configuration as the content of a config.json that `ModelConfig.from_json` and others read back.

Must not know: files, tensors' values. Tests: tests/training/test_export.py.
"""

from __future__ import annotations

from typing import Any

from saguaro.errors import ConfigError
from saguaro.models.config import ModelConfig, RopeScaling
from saguaro.models.families import FAMILIES
from saguaro.models.families.base import Family

LLAMA3_FACTORS = (8.0, 32.0)
"""Factors of the published models with this rope type; the other constants are the same in all of them."""
LLAMA3_ORIGINAL = 8192
TOLERANCE = 1e-4


def config_json(config: ModelConfig, *, draft_vocab: int | None = None, dtype: str = "float32") -> dict[str, Any]:
    """The content of config.json.

    Args:
        config: the model.
        draft_vocab: rows of a head that has some of the vocabulary only (EAGLE-3's layout, with a tensor `d2t`).
        dtype: how the tensors are stored.

    Raises:
        ConfigError: rotary positions that no config.json can describe.
    """
    family: Family = FAMILIES.get(config.architecture)
    values: dict[str, Any] = {
        "architectures": [family.hf_architectures[0]],
        "model_type": family.name,
        "torch_dtype": dtype,
        "hidden_act": "silu",
        "hidden_size": config.hidden,
        "intermediate_size": config.ffn,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab,
        "tie_word_embeddings": config.tied,
        "max_position_embeddings": config.max_position,
        "rms_norm_eps": config.rms_eps,
        "rope_theta": config.rope_theta,
        "eos_token_id": sorted(config.stop_ids),
    }
    if config.bos_id is not None:
        values["bos_token_id"] = config.bos_id
    if config.rope.kind != "default":
        values["rope_scaling"] = _scaling(config)
    if draft_vocab is not None:
        values["draft_vocab_size"] = draft_vocab
    return values


def _scaling(config: ModelConfig) -> dict[str, Any]:
    rope = config.rope if config.rope.kind != "divisors" else _llama3_of(config)
    values: dict[str, Any] = {
        "rope_type": rope.kind,
        "factor": rope.factor,
        "original_max_position_embeddings": rope.original_max_position,
    }
    if rope.kind == "llama3":
        values |= {"low_freq_factor": rope.low_freq_factor, "high_freq_factor": rope.high_freq_factor}
    if rope.kind == "yarn":
        values |= {"beta_fast": rope.beta_fast, "beta_slow": rope.beta_slow, "truncate": rope.truncate}
        if rope.attention_factor is not None:
            values["attention_factor"] = rope.attention_factor
    return values


def _llama3_of(config: ModelConfig) -> RopeScaling:
    """The scaling rule behind the divisors of a GGUF file, which has no other trace of it."""
    from dataclasses import replace

    from saguaro.models.rope import frequencies

    found = frequencies(config)
    for factor in LLAMA3_FACTORS:
        rope = RopeScaling(kind="llama3", factor=factor, original_max_position=LLAMA3_ORIGINAL)
        if ((frequencies(replace(config, rope=rope)) / found - 1).abs() < TOLERANCE).all():
            return rope
    raise ConfigError(
        "the GGUF file stretches rotary positions by a table that no config.json can describe; "
        "take the target as a directory with safetensors."
    )
