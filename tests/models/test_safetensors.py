"""Strict loading: whatever is missing, unknown, misshapen or damaged is refused by its name (B76, R10)."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from saguaro.errors import SaguaroError, WeightsError
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.weights.names import parameters
from saguaro.models.weights.source import Ledger, check_names

FILE = "model.safetensors"
K_PROJ = "model.layers.1.self_attn.k_proj.weight"


@pytest.fixture
def directory(save_tiny):
    return save_tiny("qwen2")[1]


@pytest.fixture
def rewrite(directory):
    def change(edit):
        tensors = load_file(directory / FILE)
        edit(tensors)
        save_file(tensors, directory / FILE)

    return change


def load(directory):
    return build_model(open_checkpoint(str(directory)), make_ops("torch", "float32"))


def shard(directory, num_shards=2):
    """Split the single file as large checkpoints are split; returns the index's path."""
    tensors = load_file(directory / FILE)
    names = sorted(tensors)
    weight_map = {}
    for index in range(num_shards):
        name = f"model-{index + 1:05d}-of-{num_shards:05d}.safetensors"
        part = {key: tensors[key] for key in names[index::num_shards]}
        save_file(part, directory / name)
        weight_map |= dict.fromkeys(part, name)
    (directory / FILE).unlink()
    index_path = directory / "model.safetensors.index.json"
    index_path.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index_path


def test_a_missing_tensor(directory, rewrite):
    rewrite(lambda tensors: tensors.pop(K_PROJ))
    with pytest.raises(WeightsError, match=f"missing: {K_PROJ}"):
        load(directory)


def test_a_renamed_tensor_is_both_missing_and_unknown(directory, rewrite):
    rewrite(lambda tensors: tensors.update({"model.layers.1.attn.k.weight": tensors.pop(K_PROJ)}))
    with pytest.raises(WeightsError, match=rf"missing: {K_PROJ}; unknown: model\.layers\.1\.attn\.k\.weight"):
        load(directory)


def test_an_unknown_tensor(directory, rewrite):
    rewrite(lambda tensors: tensors.update({"model.layers.2.mlp.up_proj.weight": torch.zeros(80, 64)}))
    with pytest.raises(WeightsError, match=r"unknown: model\.layers\.2\.mlp\.up_proj\.weight"):
        load(directory)


def test_a_tensor_of_the_wrong_shape(directory, rewrite):
    rewrite(lambda tensors: tensors.update({K_PROJ: torch.zeros(16, 64)}))
    with pytest.raises(WeightsError, match=rf"{K_PROJ} is \[16, 64\] instead of \[32, 64\]"):
        load(directory)


def test_integers_are_no_weights(directory, rewrite):
    rewrite(lambda tensors: tensors.update({K_PROJ: torch.zeros(32, 64, dtype=torch.int8)}))
    with pytest.raises(WeightsError, match=f"{K_PROJ} is stored as I8"):
        load(directory)


def test_old_frequency_buffers_are_ignored(directory, rewrite, logits_of):
    before = logits_of(load(directory), [1, 2, 3])
    rewrite(lambda tensors: tensors.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}))
    assert torch.equal(logits_of(load(directory), [1, 2, 3]), before)


def test_half_precision_is_widened(directory, rewrite):
    rewrite(lambda tensors: tensors.update({name: tensor.half() for name, tensor in tensors.items()}))
    tensors = dict(open_checkpoint(str(directory)).tensors())
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    rewrite(lambda tensors: tensors.update({name: tensor.bfloat16() for name, tensor in tensors.items()}))
    assert {tensor.dtype for _, tensor in open_checkpoint(str(directory)).tensors()} == {torch.bfloat16}


def test_shards_give_what_one_file_gives(directory, logits_of):
    before = logits_of(load(directory), [1, 2, 3])
    shard(directory)
    assert torch.equal(logits_of(load(directory), [1, 2, 3]), before)


def test_a_missing_shard(directory):
    shard(directory)
    (directory / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"model-00002-of-00002\.safetensors.*missing"):
        load(directory)


def test_an_index_that_names_what_its_shard_lacks(directory):
    index = shard(directory)
    content = json.loads(index.read_text())
    content["weight_map"]["model.layers.9.x"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(content))
    with pytest.raises(WeightsError, match=r"lacks the tensor model\.layers\.9\.x"):
        load(directory)


def test_an_index_that_forgets_a_tensor(directory):
    index = shard(directory)
    content = json.loads(index.read_text())
    del content["weight_map"][K_PROJ]
    index.write_text(json.dumps(content))
    with pytest.raises(WeightsError, match=f"{K_PROJ}, which the index does not name"):
        load(directory)


@pytest.mark.parametrize("keep", [0, 4, 8, 200, -10])
def test_a_file_that_is_cut_short(directory, keep):
    path = directory / FILE
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsError, match=FILE):
        load(directory)


@pytest.mark.parametrize("header", [b"[1, 2]", b'{"a": 3}', b"\xff\xfe", b'{"a": {"dtype": "F32"}}'])
def test_a_header_of_nonsense(directory, header):
    (directory / FILE).write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(WeightsError, match=FILE):
        load(directory)


def test_a_directory_without_weights_says_so(directory):
    (directory / FILE).unlink()
    with pytest.raises(WeightsError, match="holds no weights"):
        load(directory)
    (directory / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(WeightsError, match="pickled"):
        load(directory)


def test_the_family_is_never_guessed_from_the_path(save_tiny, tmp_path):
    _, directory = save_tiny("llama")
    odd = tmp_path / "my-eagle-qwen"
    directory.rename(odd)
    assert load(odd).config.architecture == "llama"


def test_long_lists_are_cut(directory, rewrite):
    rewrite(lambda tensors: [tensors.pop(name) for name in list(tensors) if "layers.1" in name])
    with pytest.raises(WeightsError, match="and 8 more"):
        load(directory)


def test_every_parameter_is_taken_exactly_once(directory):
    checkpoint = open_checkpoint(str(directory))
    expected = parameters(checkpoint.config)
    ledger = Ledger(checkpoint.weights(), expected)
    for name in expected:
        ledger.take(name)
    ledger.close()
    with pytest.raises(AssertionError):
        ledger.take(K_PROJ)
    unfilled = Ledger(checkpoint.weights(), expected)
    unfilled.take(K_PROJ)
    with pytest.raises(WeightsError, match="never filled"):
        unfilled.close()


def test_names_are_compared_both_ways():
    check_names({"a": (1,)}, {"a": (1,), "b": (2,)}, where="x", may_ignore=lambda name: name == "b")
    with pytest.raises(SaguaroError):
        check_names({"a": (1,)}, {"a": (1,), "b": (2,)}, where="x")
