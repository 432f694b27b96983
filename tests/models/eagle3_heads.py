"""EAGLE-3 heads with random weights, written as published ones are."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from saguaro.models.config import ModelConfig


def head_tensors(
    target: ModelConfig,
    *,
    hidden: int | None = None,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int | None = None,
    ffn: int = 48,
    ids: list[int] | None = None,
    layers: int = 1,
    own_embedding: bool = False,
    taps: int | None = 3,
    seed: int = 0,
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors under the authors' names, and the content of config.json."""
    width, generator = hidden or target.hidden, torch.Generator().manual_seed(seed)
    size = head_dim or width // heads
    rows = target.vocab if ids is None else len(ids)

    def matrix(outputs: int, inputs: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(outputs, inputs, generator=generator) * (scale / math.sqrt(inputs))

    def norm(length: int) -> torch.Tensor:
        return 1 + 0.1 * torch.randn(length, generator=generator)

    tensors: dict[str, torch.Tensor] = {}
    for index in range(layers):
        name, inputs = ("midlayer", 2 * width) if index == 0 else (f"layers.{index}", width)
        tensors |= {
            f"{name}.input_layernorm.weight": norm(width),
            f"{name}.self_attn.q_proj.weight": matrix(heads * size, inputs),
            f"{name}.self_attn.k_proj.weight": matrix(kv_heads * size, inputs),
            f"{name}.self_attn.v_proj.weight": matrix(kv_heads * size, inputs),
            f"{name}.self_attn.o_proj.weight": matrix(width, heads * size),
            f"{name}.post_attention_layernorm.weight": norm(width),
            f"{name}.mlp.gate_proj.weight": matrix(ffn, width),
            f"{name}.mlp.up_proj.weight": matrix(ffn, width),
            f"{name}.mlp.down_proj.weight": matrix(width, ffn),
        }
    tensors |= {
        "midlayer.hidden_norm.weight": norm(width),
        "norm.weight": norm(width),
        "lm_head.weight": matrix(rows, width, scale=4.0),
    }
    if taps is not None:
        tensors["fc.weight"] = matrix(width, taps * target.hidden)
    if own_embedding:
        tensors["embed_tokens.weight"] = torch.randn(target.vocab, width, generator=generator)
    config = described(target, width, heads, kv_heads, ffn)
    if head_dim is not None:
        config["head_dim"] = head_dim
    if width != target.hidden:
        config["target_hidden_size"] = target.hidden
    if ids is not None:
        config["draft_vocab_size"] = rows
        tensors["d2t"] = torch.tensor(ids) - torch.arange(rows)
        tensors["t2d"] = torch.isin(torch.arange(target.vocab), torch.tensor(ids))
    return tensors, config


def described(target: ModelConfig, width: int, heads: int, kv_heads: int, ffn: int) -> dict[str, Any]:
    """What every config.json of a head says."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": target.vocab,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
    }


def write(folder: Path, tensors: dict[str, torch.Tensor], config: dict[str, Any]) -> str:
    """A directory with both."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)
