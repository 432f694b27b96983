"""Drafts that leave embedding and head to their target: rounding, the pair that fits, and what is refused."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from saguaro.config import EngineConfig
from saguaro.engine.resolve import resolve
from saguaro.errors import ConfigError, WeightsError
from saguaro.models.borrowed import BorrowingCheckpoint, borrowed_names, digest
from saguaro.models.checkpoint import BORROWED, open_checkpoint
from saguaro.models.config_json import config_json
from saguaro.models.weights.int8_rows import Int8Rows, from_rows, to_rows
from saguaro.models.weights.names import EMBEDDING, HEAD, parameters

SIZES = "vocab=300&layers=2&hidden=32&ffn=48"
TARGETS = [f"toy:llama?{SIZES}&tied={tied}" for tied in (0, 1)]


def write(folder, target, **changes):
    """A draft of the target's own layers."""
    checkpoint = open_checkpoint(target)
    borrowed = borrowed_names(checkpoint.config)
    own = {name: value for name, value in checkpoint.tensors() if name not in borrowed}
    folder.mkdir()
    save_file(to_rows(own.items()), folder / "model.safetensors")
    config = config_json(checkpoint.config)
    config[BORROWED] = {"target": "a toy", "digest": digest(checkpoint)} | changes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_rows_come_back_within_half_a_level(tmp_path):
    generator = torch.Generator().manual_seed(0)
    tensors = {"a": torch.randn(7, 40, generator=generator), "b": torch.randn(5, generator=generator)}
    tensors["a"][3] = 0
    stored = to_rows(tensors.items())
    save_file(stored, tmp_path / "model.safetensors")
    read = Int8Rows(tmp_path)
    assert read.shapes() == {"a": (7, 40), "b": (5,)}
    assert torch.equal(read.get("b"), tensors["b"])
    assert torch.equal(read.get("a"), from_rows("a", stored))
    level = tensors["a"].abs().amax(1, keepdim=True) / 127
    assert ((read.get("a") - tensors["a"]).abs() <= 0.5001 * level).all()
    again = to_rows([("a", read.get("a"))])
    assert torch.equal(again["a"], stored["a"])


@pytest.mark.parametrize("target", TARGETS)
def test_a_draft_has_its_own_layers_and_the_targets_embedding(target, tmp_path):
    folder = write(tmp_path / "draft", target)
    lender = open_checkpoint(target)
    draft = open_checkpoint(str(folder), target=target)
    assert isinstance(draft, BorrowingCheckpoint)
    assert draft.config == lender.config
    assert draft.signature().digest == lender.signature().digest
    ours, theirs = dict(draft.tensors()), dict(lender.tensors())
    assert ours.keys() == theirs.keys() == parameters(lender.config).keys()
    for name, value in theirs.items():
        exact = name in (EMBEDDING, HEAD) or value.dim() == 1
        assert torch.equal(ours[name], value) == exact, name
        torch.testing.assert_close(ours[name], value, rtol=0, atol=0.02)
    assert set(load_file(folder / "model.safetensors")).isdisjoint({EMBEDDING, HEAD})


def test_a_target_in_files_is_known_by_its_bytes(tmp_path):
    def saved(name, source):
        checkpoint, folder = open_checkpoint(source), tmp_path / name
        folder.mkdir()
        save_file(dict(checkpoint.tensors()), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config_json(checkpoint.config)))
        return digest(open_checkpoint(str(folder)))

    first, second, other = (saved(name, f"{TARGETS[0]}&seed={seed}") for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert first == second != other


def test_another_target_is_refused(tmp_path):
    folder = write(tmp_path / "draft", TARGETS[0])
    with pytest.raises(ConfigError, match="has the embedding of a toy .* has another one"):
        open_checkpoint(str(folder), target=f"toy:llama?{SIZES}&seed=1")


@pytest.mark.parametrize(("asked", "found"), [("auto", "int8"), ("int4", "int4")])
def test_int8_rows_are_not_made_smaller_unasked(tmp_path, asked, found):
    folder = write(tmp_path / "draft", TARGETS[0])
    options = {"target": TARGETS[0], "draft": str(folder), "dtype": "int8", "draft_dtype": asked, "mode": "sd"}
    plan = resolve(EngineConfig.from_options(**options))
    assert plan.draft is not None
    assert plan.draft.dtype == found


def test_alone_it_is_no_model(tmp_path):
    draft = open_checkpoint(str(write(tmp_path / "draft", TARGETS[0])))
    assert draft.config.num_layers == 2
    for what in (draft.weights, draft.tokenizer, draft.signature):
        with pytest.raises(ConfigError, match="give it as the draft of a toy"):
            what()


def test_damage_is_named(tmp_path):
    folder = write(tmp_path / "draft", TARGETS[0])
    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    for missing, words in ((name, "no tensor that it belongs to"), (f"{name}.scale", "a scale for each")):
        save_file({key: value for key, value in tensors.items() if key != missing}, folder / "model.safetensors")
        with pytest.raises(WeightsError, match=words):
            open_checkpoint(str(folder), target=TARGETS[0]).weights()
    kept = {key: value for key, value in tensors.items() if not key.startswith(name)}
    save_file(kept, folder / "model.safetensors")
    with pytest.raises(WeightsError, match="missing: model.layers.1.mlp.up_proj.weight"):
        open_checkpoint(str(folder), target=TARGETS[0]).weights()
    with pytest.raises(WeightsError, match="does not say whose"):
        open_checkpoint(str(write(tmp_path / "nobodys", TARGETS[0], digest=None)), target=TARGETS[0])
