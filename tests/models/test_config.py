"""Configurations: sizes of the published models, both spellings, and what is refused by name (B73, B75)."""

import json
from pathlib import Path

import pytest

from saguaro.errors import ConfigError, SaguaroError, WeightsError
from saguaro.models.config import ModelConfig, RopeScaling
from saguaro.models.weights.names import parameters

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}


def described(family, layers, hidden, heads, kv, ffn, vocab, *, tied=False, **more):
    return {
        "architectures": [ARCHITECTURES[family]],
        "model_type": family,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "hidden_act": "silu",
    } | more


# name: (config, tensors, parameters, bytes of keys and values a token in bfloat16)
PUBLISHED = {
    "llama-3.1-8b": (described("llama", 32, 4096, 32, 8, 14336, 128256), 291, 8_030_261_248, 131_072),
    "llama-3.3-70b": (described("llama", 80, 8192, 64, 8, 28672, 128256), 723, 70_553_706_496, 327_680),
    "llama-3.2-1b": (
        described("llama", 16, 2048, 32, 8, 8192, 128256, tied=True, head_dim=64),
        146,
        1_235_814_400,
        32_768,
    ),
    "qwen2.5-0.5b": (described("qwen2", 24, 896, 14, 2, 4864, 151936, tied=True), 290, 494_032_768, 12_288),
    "qwen2.5-1.5b": (described("qwen2", 28, 1536, 12, 2, 8960, 151936, tied=True), 338, 1_543_714_304, 28_672),
    "qwen2.5-7b": (described("qwen2", 28, 3584, 28, 4, 18944, 152064), 339, 7_615_616_512, 57_344),
    "qwen3-0.6b": (
        described("qwen3", 28, 1024, 16, 8, 3072, 151936, tied=True, head_dim=128),
        310,
        596_049_920,
        114_688,
    ),
    "qwen3-8b": (described("qwen3", 36, 4096, 32, 8, 12288, 151936), 399, 8_190_735_360, 147_456),
    "qwen3-32b": (described("qwen3", 64, 5120, 64, 8, 25600, 151936, head_dim=128), 707, 32_762_123_264, 262_144),
    "smollm2-135m": (described("llama", 30, 576, 9, 3, 1536, 49152, tied=True), 272, 134_515_008, 23_040),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_the_known_number_of_parameters(name):
    raw, num_tensors, num_parameters, kv_bytes = PUBLISHED[name]
    config = ModelConfig.from_json(raw)
    shapes = parameters(config)
    assert len(shapes) == num_tensors
    total = 0
    for shape in shapes.values():
        elements = 1
        for size in shape:
            elements *= size
        total += elements
    assert total == num_parameters
    assert config.kv_bytes_per_token(2) == kv_bytes


def test_head_dim_is_the_quotient_for_llama_and_128_for_a_silent_qwen3():
    assert ModelConfig.from_json(PUBLISHED["smollm2-135m"][0]).head_dim == 64
    silent = described("qwen3", 2, 1024, 16, 8, 3072, 100)
    assert ModelConfig.from_json(silent).head_dim == 128
    assert ModelConfig.from_json(silent | {"head_dim": 80}).head_dim == 80
    assert ModelConfig.from_json(silent | {"head_dim": None}).head_dim == 128


def test_biases_and_norms_come_from_the_family():
    flags = {name: ModelConfig.from_json(described(name, 2, 64, 4, 2, 96, 100)) for name in ARCHITECTURES}
    assert {name: (c.qkv_bias, c.qk_norm) for name, c in flags.items()} == {
        "llama": (False, False),
        "qwen2": (True, False),
        "qwen3": (False, True),
    }


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_theta": 500000, "rope_scaling": LLAMA3_ROPE},
        {
            "rope_theta": 500000.0,
            "rope_scaling": {("type" if k == "rope_type" else k): v for k, v in LLAMA3_ROPE.items()},
        },
        {"rope_theta": None, "rope_parameters": LLAMA3_ROPE | {"rope_theta": 500000.0}},
    ],
    ids=["rope_scaling", "type", "rope_parameters"],
)
def test_all_spellings_of_rope_mean_the_same(keys):
    raw = described("llama", 2, 64, 4, 2, 96, 100) | keys
    config = ModelConfig.from_json({key: value for key, value in raw.items() if value is not None})
    assert config.rope_theta == 500000.0
    assert config.rope == RopeScaling(kind="llama3", factor=8.0, original_max_position=8192)


def test_rope_base_defaults_to_10000_and_null_scaling_is_none():
    raw = described("llama", 2, 64, 4, 2, 96, 100, rope_scaling=None)
    del raw["rope_theta"]
    config = ModelConfig.from_json(raw)
    assert (config.rope_theta, config.rope.kind) == (10000.0, "default")


def test_stop_ids_are_the_union_of_both_files():
    raw = described("qwen2", 2, 64, 4, 2, 96, 100, eos_token_id=7, bos_token_id=3)
    config = ModelConfig.from_json(raw, generation={"eos_token_id": [7, 5], "repetition_penalty": 1.1})
    assert (config.stop_ids, config.bos_id) == (frozenset({5, 7}), 3)
    listed = ModelConfig.from_json(raw | {"eos_token_id": [1, 2]}, generation=None)
    assert listed.stop_ids == frozenset({1, 2})


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"architectures": ["LlamaForCausalLN"]}, "LlamaForCausalLM"),
        ({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}, "GPT2LMHeadModel"),
        ({"architectures": [], "model_type": None}, "no architecture"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 4.0}}, "longrope"),
        ({"rope_scaling": {"rope_type": "lama3", "factor": 4.0}}, "did you mean 'llama3'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor"),
        ({"rope_scaling": {"type": "linear"}}, "factor"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "part of a head"),
        ({"use_sliding_window": True, "sliding_window": 128, "max_window_layers": 0}, "sliding"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"attention_bias": True}, "bias"),
        ({"mlp_bias": True}, "bias"),
        ({"quantization_config": {"quant_method": "awq"}}, "awq"),
        ({"draft_vocab_size": 101}, "vocabulary of 100 tokens"),
        ({"draft_vocab_size": 10, "tie_word_embeddings": True}, "tied"),
        ({"draft_vocab_size": "many"}, "draft_vocab_size"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_key_value_heads": 3}, "3 key-value heads"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(changes, word):
    raw = described("llama", 2, 64, 4, 2, 96, 100) | changes
    with pytest.raises(SaguaroError, match=word) as caught:
        ModelConfig.from_json(raw)
    assert str(caught.value).endswith("."), "one sentence"


def test_a_window_that_is_not_in_use_is_no_reason_to_refuse():
    raw = described(
        "qwen2", 2, 64, 4, 2, 96, 100, sliding_window=131072, use_sliding_window=False, max_window_layers=28
    )
    assert ModelConfig.from_json(raw).num_layers == 2
    assert ModelConfig.from_json(raw | {"use_sliding_window": True}).num_layers == 2, "no layer is above the 28th"


def gguf_keys(name="llama", **changes):
    keys = {
        "block_count": 2,
        "context_length": 4096,
        "embedding_length": 64,
        "feed_forward_length": 96,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0,
    } | changes
    return {"general.architecture": name} | {f"{name}.{key}": value for key, value in keys.items() if value is not None}


def test_gguf_metadata_gives_the_same_sizes():
    config = ModelConfig.from_gguf(gguf_keys(), vocab=100, tied=True)
    assert (config.num_layers, config.hidden, config.head_dim, config.num_kv_heads) == (2, 64, 16, 2)
    assert ModelConfig.from_gguf(gguf_keys(**{"attention.head_count_kv": None}), vocab=100, tied=True).num_kv_heads == 4
    assert (
        ModelConfig.from_gguf(
            gguf_keys(**{"attention.key_length": 32, "attention.value_length": 32}), vocab=9, tied=True
        ).head_dim
        == 32
    )


def test_a_qwen3_gguf_must_state_its_head_size():
    with pytest.raises(WeightsError, match="attention.key_length"):
        ModelConfig.from_gguf(gguf_keys("qwen3"), vocab=100, tied=True)


@pytest.mark.parametrize(
    ("metadata", "word"),
    [
        (gguf_keys("gemma2"), "gemma2"),
        (gguf_keys(block_count=None), "llama.block_count"),
        (gguf_keys(**{"rope.scaling.type": "longrope"}), "longrope"),
        (gguf_keys(**{"rope.dimension_count": 8}), "part of a head"),
        (gguf_keys(**{"attention.sliding_window": 512}), "sliding"),
        (gguf_keys(**{"attention.key_length": 16, "attention.value_length": 32}), "head size"),
    ],
)
def test_gguf_refusals(metadata, word):
    with pytest.raises(SaguaroError, match=word):
        ModelConfig.from_gguf(metadata, vocab=100, tied=True)


def test_gguf_scaling_of_the_kinds_that_metadata_knows():
    keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}
    rope = ModelConfig.from_gguf(gguf_keys(**keys), vocab=100, tied=True).rope
    assert (rope.kind, rope.factor, rope.original_max_position) == ("yarn", 4.0, 1024)
    with pytest.raises(ConfigError, match="rope_freqs"):
        ModelConfig.from_gguf(gguf_keys(**keys), vocab=100, tied=True, divisors=(1.0,) * 8)
    with pytest.raises(WeightsError, match="rope_freqs"):
        ModelConfig.from_gguf(gguf_keys(), vocab=100, tied=True, divisors=(1.0,) * 3)


def test_reading_a_configuration_needs_no_torch():
    import subprocess
    import sys

    code = "import sys, saguaro.models.config, saguaro.models.checkpoint; assert 'torch' not in sys.modules"
    source = Path(__file__).resolve().parents[2] / "src"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(source)}, timeout=60)


def test_configs_survive_json(tmp_path):
    raw = PUBLISHED["qwen3-8b"][0]
    assert ModelConfig.from_json(json.loads(json.dumps(raw))) == ModelConfig.from_json(raw)
