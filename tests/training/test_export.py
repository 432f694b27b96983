"""A configuration written as config.json is read back as the same model; toy tokenizers survive, too."""

from dataclasses import replace

import pytest
import torch

from saguaro.errors import ConfigError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.config import ModelConfig, RopeScaling
from saguaro.models.config_json import config_json
from saguaro.models.rope import attention_scale, frequencies
from saguaro.models.tokenizer import Tokenizer
from saguaro.models.vocabulary import compare, directory_signature, directory_stop_ids

BASE = open_checkpoint("toy:llama?layers=3&head_dim=64").config
LLAMA3 = RopeScaling(kind="llama3", factor=32.0, low_freq_factor=1.0, original_max_position=8192)


@pytest.mark.parametrize("source", ["toy:llama?tied=1", "toy:qwen2", "toy:qwen3?layers=1", "toy:llama?eos=0"])
def test_every_family_comes_back(source):
    config = open_checkpoint(source).config
    assert ModelConfig.from_json(config_json(config)) == config


@pytest.mark.parametrize(
    "rope",
    [
        LLAMA3,
        RopeScaling(kind="linear", factor=4.0),
        RopeScaling(kind="yarn", factor=4.0, original_max_position=2048, attention_factor=1.2, truncate=False),
        RopeScaling(kind="yarn", factor=2.0, original_max_position=1024, beta_fast=16.0),
    ],
)
def test_positions_come_back(rope):
    config = replace(BASE, rope=rope, rope_theta=500000.0)
    found = ModelConfig.from_json(config_json(config))
    assert torch.equal(frequencies(found), frequencies(config))
    assert attention_scale(found.rope) == attention_scale(rope)


def test_the_rule_behind_a_gguf_table_is_found():
    plain = replace(BASE, rope_theta=500000.0)
    divisors = tuple((frequencies(plain) / frequencies(replace(plain, rope=LLAMA3))).tolist())
    config = replace(plain, rope=RopeScaling(kind="divisors", divisors=divisors))
    found = ModelConfig.from_json(config_json(config))
    assert found.rope.kind == "llama3"
    torch.testing.assert_close(frequencies(found), frequencies(config), rtol=1e-5, atol=0)
    odd = replace(config, rope=RopeScaling(kind="divisors", divisors=tuple(1.5 + i for i in range(32))))
    with pytest.raises(ConfigError, match="no config.json can describe"):
        config_json(odd)


@pytest.mark.parametrize("vocab", [300, 48])
def test_a_toy_tokenizer_survives(vocab, tmp_path):
    toy = open_checkpoint(f"toy:llama?vocab={vocab}")
    toy.save_tokenizer(tmp_path)
    assert compare(toy.signature(), directory_signature(tmp_path)) is None
    assert directory_stop_ids(tmp_path) == toy.stop_ids
    if vocab > 256:
        read = Tokenizer.from_directory(tmp_path)
        for text in ("plain words", "naïve 東京\n"):
            ids = toy.tokenizer().encode(text)
            assert read.encode(text) == ids
            assert read.decode(ids) == text
