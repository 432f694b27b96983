"""Rotary positions: frequencies with their scaling, and tables of cosines and sines.

All families here rotate halves (element i with i + head_dim / 2). Frequencies and angles are computed in float32 in the
order in which the published models were trained and are run elsewhere: at position 5,000 an angle's rounding error in
float32 is already larger than 1e-4, so "more exact" would be different. Sources: Llama 3.1 scaling rule, YaRN (arXiv
2309.00071) sections 3.2 and 3.4. Must not know: attention. Tests: tests/models/test_rope.py.
"""

from __future__ import annotations

import math

import torch

from saguaro.models.config import ModelConfig, RopeScaling


def frequencies(config: ModelConfig) -> torch.Tensor:
    """Radians per position of each rotated pair, scaling included: float32 (head_dim / 2)."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).to(torch.float32) / config.head_dim
    plain = 1.0 / (config.rope_theta**exponents)
    scaling = config.rope
    if scaling.kind == "divisors":
        return plain / torch.tensor(scaling.divisors, dtype=torch.float32)
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "llama3":
        return _llama3(plain, scaling)
    if scaling.kind == "yarn":
        return _yarn(plain, scaling, config)
    return plain


def attention_scale(scaling: RopeScaling) -> float:
    """Factor on cosines and sines; only YaRN has one."""
    if scaling.kind != "yarn":
        return 1.0
    if scaling.attention_factor is not None:
        return float(scaling.attention_factor)
    return 0.1 * math.log(scaling.factor) + 1.0 if scaling.factor > 1 else 1.0


def rope_tables(config: ModelConfig, num_positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of positions 0 ... num_positions - 1: two float32 tensors (positions, head_dim / 2)."""
    positions = torch.arange(num_positions, dtype=torch.float32)
    angles = positions[:, None] * frequencies(config)[None, :]
    scale = attention_scale(config.rope)
    return (angles.cos() * scale).contiguous(), (angles.sin() * scale).contiguous()


def _llama3(plain: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Long waves are divided by `factor`, short ones left alone, those between are blended."""
    longest = scaling.original_max_position / scaling.low_freq_factor
    shortest = scaling.original_max_position / scaling.high_freq_factor
    waves = 2 * math.pi / plain
    divided = torch.where(waves > longest, plain / scaling.factor, plain)
    spread = scaling.high_freq_factor - scaling.low_freq_factor
    smooth = (scaling.original_max_position / waves - scaling.low_freq_factor) / spread
    blended = (1 - smooth) * divided / scaling.factor + smooth * divided
    between = ~(waves < shortest) & ~(waves > longest)
    return torch.where(between, blended, divided)


def _yarn(plain: torch.Tensor, scaling: RopeScaling, config: ModelConfig) -> torch.Tensor:
    """Interpolate the pairs that turn less than `beta_slow` times over the original context, keep the fast ones."""

    def pair_that_turns(times: float) -> float:
        base = math.log(scaling.original_max_position / (times * 2 * math.pi))
        return config.head_dim * base / (2 * math.log(config.rope_theta))

    low, high = pair_that_turns(scaling.beta_fast), pair_that_turns(scaling.beta_slow)
    if scaling.truncate:
        low, high = float(math.floor(low)), float(math.ceil(high))
    low, high = max(low, 0.0), min(high, config.head_dim - 1.0)
    high = high if high != low else high + 0.001
    ramp = ((torch.arange(config.head_dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    return plain / scaling.factor * ramp + plain * (1 - ramp)
