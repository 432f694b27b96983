"""Rotation frequencies: the published divisors, and equality with transformers for every kind of scaling (B73, R06)."""

from dataclasses import replace

import pytest
import torch

from saguaro.models.config import ModelConfig, RopeScaling
from saguaro.models.rope import attention_scale, frequencies, rope_tables

BASE = ModelConfig(
    architecture="llama",
    num_layers=1,
    hidden=256,
    num_heads=2,
    num_kv_heads=2,
    head_dim=128,
    ffn=64,
    vocab=16,
    tied=True,
    rope_theta=500000.0,
    max_position=131072,
    rms_eps=1e-5,
)


@pytest.mark.parametrize(
    ("head_dim", "factor", "between"),
    [
        (128, 8.0, {29: 1.207484, 30: 1.553415, 31: 2.026313, 32: 2.694530, 33: 3.684253, 34: 5.257327}),
        (64, 32.0, {15: 1.651329, 16: 3.292262, 17: 9.666729}),
    ],
)
def test_llama3_divisors(head_dim, factor, between):
    plain = replace(BASE, head_dim=head_dim)
    scaled = replace(plain, rope=RopeScaling(kind="llama3", factor=factor))
    divisors = (frequencies(plain).double() / frequencies(scaled).double()).tolist()
    for index, divisor in enumerate(divisors):
        expected = between.get(index, 1.0 if index < min(between) else factor)
        assert divisor == pytest.approx(expected, rel=2e-6), index


def test_divisors_of_a_gguf_tensor_give_the_same_frequencies():
    scaled = replace(BASE, rope=RopeScaling(kind="llama3", factor=8.0))
    divisors = tuple((frequencies(BASE) / frequencies(scaled)).tolist())
    from_tensor = frequencies(replace(BASE, rope=RopeScaling(kind="divisors", divisors=divisors)))
    torch.testing.assert_close(from_tensor, frequencies(scaled), rtol=3e-7, atol=0)


@pytest.mark.parametrize(
    ("scaling", "theirs"),
    [
        (RopeScaling(), {"rope_type": "default"}),
        (RopeScaling(kind="linear", factor=4.0), {"rope_type": "linear", "factor": 4.0}),
        (
            RopeScaling(kind="llama3", factor=32.0),
            {
                "rope_type": "llama3",
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        ),
        (
            RopeScaling(kind="yarn", factor=4.0, original_max_position=32768),
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        ),
        (
            RopeScaling(kind="yarn", factor=4.0, original_max_position=32768, attention_factor=1.5, truncate=False),
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32768,
                "attention_factor": 1.5,
                "truncate": False,
            },
        ),
    ],
    ids=["default", "linear", "llama3", "yarn", "yarn-stated"],
)
def test_frequencies_equal_transformers(scaling, theirs):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=2,
        head_dim=128,
        max_position_embeddings=131072,
        rope_parameters=theirs | {"rope_theta": 500000.0},
    )
    module = LlamaRotaryEmbedding(config)
    ours = replace(BASE, rope=scaling)
    torch.testing.assert_close(frequencies(ours), module.inv_freq, rtol=2e-6, atol=0)
    assert attention_scale(scaling) == pytest.approx(module.attention_scaling)
    cos, sin = rope_tables(ours, 5001)
    theirs_cos, theirs_sin = module(torch.zeros(1), torch.tensor([[0, 100, 5000]]))
    torch.testing.assert_close(cos[[0, 100, 5000]], theirs_cos[0, :, :64], rtol=0, atol=2e-3)
    torch.testing.assert_close(sin[[0, 100, 5000]], theirs_sin[0, :, :64], rtol=0, atol=2e-3)


def test_tables_hold_the_angles():
    cos, sin = rope_tables(BASE, 3)
    assert cos.shape == sin.shape == (3, 64)
    assert torch.equal(cos[0], torch.ones(64))
    assert torch.equal(sin[0], torch.zeros(64))
    assert cos[2, 0].item() == pytest.approx(torch.tensor(2.0).cos().item())
