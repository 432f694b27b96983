"""Qwen3 (dense): no bias, a norm on every head of q and k, a head size of its own (128 when config.json is silent)."""

from saguaro.models.families.base import Family

FAMILY = Family(name="qwen3", hf_architectures=("Qwen3ForCausalLM",), qk_norm=True, default_head_dim=128)
