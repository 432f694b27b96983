import json

import pytest

from saguaro.errors import ConfigError
from saguaro.simulate.shapes import PRESETS, bytes_of, from_config, open_shape

# Parameters by the published checkpoints; norms and biases are not counted, so a little less must come out.
PUBLISHED = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-32b": 32_762_123_264,
    "smollm2-135m": 134_515_008,
}
KEYS_AND_VALUES = {"llama-3.1-70b": 327_680, "llama-3.2-1b": 32_768, "qwen3-0.6b": 114_688, "qwen3-32b": 262_144}


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_are_those_of_the_checkpoint(name):
    assert 0 <= PUBLISHED[name] - PRESETS[name].stored < 1e-3 * PUBLISHED[name]


@pytest.mark.parametrize("name", KEYS_AND_VALUES)
def test_keys_and_values(name):
    assert PRESETS[name].kv_bytes_per_token() == KEYS_AND_VALUES[name]


def test_the_embedding_is_stored_and_not_read():
    untied, tied = PRESETS["llama-3.1-8b"], PRESETS["llama-3.2-1b"]
    assert untied.stored - untied.read == untied.embedding
    assert tied.stored == tied.read


CONFIG = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
    "intermediate_size": 96, "vocab_size": 500, "tie_word_embeddings": True,
}  # fmt: skip


def test_a_config_file_or_its_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for source in (tmp_path, tmp_path / "config.json"):
        shape = open_shape(str(source))
        assert (shape.head_dim, shape.kv_heads, shape.tied) == (16, 2, True)
        assert shape.read == 3 * (2 * 64 * 6 * 16 + 3 * 64 * 96) + 500 * 64


def test_head_size_is_not_always_the_quotient():
    assert from_config({**CONFIG, "model_type": "qwen3"}, name="x").head_dim == 128
    assert from_config({**CONFIG, "head_dim": 32}, name="x").head_dim == 32


@pytest.mark.parametrize(
    ("change", "said"), [({"num_experts": 8}, "8 experts"), ({"vocab_size": None}, "'vocab_size'")]
)
def test_what_it_cannot_compute(change, said):
    with pytest.raises(ConfigError, match=said):
        from_config({**CONFIG, **change}, name="x")


def test_unknown_names_get_a_hint(tmp_path):
    with pytest.raises(ConfigError, match=r"did you mean 'llama-3.1-70b'\?"):
        open_shape("llama-3.1-70")
    (tmp_path / "config.json").write_text("[1")
    with pytest.raises(ConfigError, match="cannot be read as JSON"):
        open_shape(str(tmp_path))
    with pytest.raises(ConfigError, match="did you mean 'bfloat16'"):
        bytes_of("bfloat")
