"""Old name of `causal_lm.py`; to be removed once nothing imports it."""

from saguaro.models.causal_lm import CausalLM, LayerPool

__all__ = ["CausalLM", "LayerPool"]
