"""Llama 2 and 3.x, SmolLM2. Llama 3.1 and later scale their rotation frequencies (`rope.py`)."""

from saguaro.models.families.base import Family

FAMILY = Family(name="llama", hf_architectures=("LlamaForCausalLM",), gguf_permuted=True)
