"""Qwen2 and Qwen2.5: a bias on q, k and v, although config.json has no key that says so."""

from saguaro.models.families.base import Family

FAMILY = Family(name="qwen2", hf_architectures=("Qwen2ForCausalLM",), qkv_bias=True)
