"""EAGLE-3 heads as they are published: recognised, read as their own config says, loaded strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.eagle3_heads import head_tensors, write

from saguaro.config import EngineConfig
from saguaro.engine.resolve import resolve
from saguaro.errors import ConfigError, SaguaroError, WeightsError
from saguaro.models.borrowed import digest
from saguaro.models.build import make_ops
from saguaro.models.checkpoint import BORROWED, Checkpoint, open_checkpoint
from saguaro.models.eagle3 import Eagle3Head, build_head
from saguaro.models.eagle3_checkpoint import Eagle3Checkpoint, RenamedWeights
from saguaro.models.eagle3_shape import Eagle3Shape, tap_layers
from saguaro.models.weights.int8_rows import from_rows, to_rows

TARGET = "toy:qwen3?seed=1&vocab=48&layers=8&hidden=32&head_dim=16"
IDS = [3, 5, 40, 47]


def target() -> Checkpoint:
    return open_checkpoint(TARGET)


def built(source: str) -> Eagle3Head:
    return build_head(open_checkpoint(source), target(), make_ops("torch", "float32"), max_positions=64)


def renamed(tensors: dict[str, torch.Tensor], old: str, new: str) -> dict[str, torch.Tensor]:
    return {new + name.removeprefix(old) if name.startswith(old) else name: value for name, value in tensors.items()}


def test_the_authors_layout(tmp_path: Path) -> None:
    tensors, config = head_tensors(target().config, ids=IDS)
    halves = {name: value.half() if value.is_floating_point() else value for name, value in tensors.items()}
    head = open_checkpoint(write(tmp_path, halves, config | {"num_hidden_layers": 36})).config
    shape = head.eagle3
    assert shape == Eagle3Shape(target_hidden=32, num_taps=3, fused=True, own_embedding=False)
    assert shape.tap_width == 96
    assert (head.num_layers, head.hidden, head.head_dim, head.vocab, head.draft_vocab) == (1, 32, 8, 48, 4)
    assert (head.rope_theta, head.qk_norm, head.qkv_bias, head.tied) == (10000.0, False, False, False)
    assert head.max_position > 100_000, "2048 is a length of training"
    model = built(str(tmp_path))
    assert model.ids_D is not None
    assert model.ids_D.tolist() == IDS
    assert torch.equal(model.weights.embedding_VH, target().weights().get("model.embed_tokens.weight"))


def test_int8_rows_bind_a_head_to_its_target(tmp_path: Path) -> None:
    """As `train-draft --eagle3 --stored int8` writes it."""
    tensors, config = head_tensors(target().config, ids=IDS)
    ids = {"d2t": tensors.pop("d2t")}
    lender = {"target": "a toy", "digest": digest(target())}
    folder = write(tmp_path, to_rows(tensors.items()) | ids, config | {BORROWED: lender})
    head = open_checkpoint(folder, target=TARGET)
    assert isinstance(head, Eagle3Checkpoint)
    assert head.draft_ids() == IDS
    stored = to_rows(tensors.items())
    for name, value in RenamedWeights(head._raw).shapes().items():
        assert value == tuple(head.weights().get(name).shape)
    assert torch.equal(head.weights().get("model.norm.weight"), tensors["norm.weight"])
    assert torch.equal(head.weights().get("fc.weight"), from_rows("fc.weight", stored))
    assert built(folder).ids_D is not None
    with pytest.raises(ConfigError, match="has the embedding of a toy .* has another one"):
        open_checkpoint(folder, target=TARGET.replace("seed=1", "seed=2"))
    (tmp_path / "config.json").write_text(json.dumps(config | {BORROWED: {"target": "a toy"}}))
    with pytest.raises(WeightsError, match="whose embedding"):
        open_checkpoint(folder, target=TARGET)


def test_other_layouts_are_the_same_head(tmp_path: Path) -> None:
    tensors, config = head_tensors(target().config, ids=IDS)
    pickled = tmp_path / "bin"
    pickled.mkdir()
    torch.save(tensors, pickled / "pytorch_model.bin")
    write(tmp_path / "config only", {}, config | {"draft_vocab_size": 4})
    (tmp_path / "config only" / "config.json").rename(pickled / "config.json")
    layer = {name: value for name, value in config.items() if name not in ("draft_vocab_size", "architectures")}
    speculators = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": 4,
        "norm_before_residual": False,
        "norm_output": False,
        "transformer_layer_config": layer | {"rope_theta": 10000.0},
    }
    sources = [
        write(tmp_path / "authors", tensors, config),
        write(tmp_path / "layers", renamed(tensors, "midlayer.", "layers.0."), config),
        write(tmp_path / "model", {f"model.{name}": value for name, value in tensors.items()}, config),
        write(tmp_path / "speculators", renamed(tensors, "midlayer.", "layers.0."), speculators),
        str(pickled),
    ]
    first = open_checkpoint(sources[0])
    for source in sources[1:]:
        other = open_checkpoint(source)
        assert other.config == first.config
        assert other.draft_ids() == IDS
        assert other.fingerprint != first.fingerprint
        for name in ("fc.weight", "model.layers.0.self_attn.q_proj.weight", "lm_head.weight"):
            assert torch.equal(other.weights().get(name), first.weights().get(name))
    silent = {name: value for name, value in speculators.items() if name != "norm_before_residual"}
    shape = open_checkpoint(
        write(tmp_path / "silent", renamed(tensors, "midlayer.", "layers.0."), silent)
    ).config.eagle3
    assert shape is not None
    assert shape.norm_before_residual, "that format's own default"


def test_a_head_of_another_width_with_more_layers(tmp_path: Path) -> None:
    tensors, config = head_tensors(target().config, hidden=24, head_dim=10, layers=2, own_embedding=True)
    config |= {"rope_theta": 500000, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    source = write(tmp_path, tensors, config)
    head = open_checkpoint(source).config
    assert head.eagle3 == Eagle3Shape(target_hidden=32, num_taps=3, fused=True, own_embedding=True)
    assert (head.num_layers, head.head_dim, head.draft_vocab, head.rope_theta) == (2, 10, None, 500000.0)
    assert head.rope.kind == "linear"
    assert len(built(source).weights.layers) == 2


def test_norms_of_the_taps(tmp_path: Path) -> None:
    tensors, config = head_tensors(target().config)
    each = tensors | {f"fc_norm.{index}.weight": torch.ones(32) for index in range(3)}
    shape = open_checkpoint(write(tmp_path / "a", each, config | {"fc_norm": True, "norm_output": True})).config.eagle3
    assert shape is not None
    assert (shape.tap_norms, shape.input_norm, shape.norm_output) == (True, False, True)
    whole = tensors | {"input_norm.weight": torch.ones(96)}
    shape = open_checkpoint(write(tmp_path / "b", whole, config | {"norm_before_fc": True})).config.eagle3
    assert shape is not None
    assert (shape.tap_norms, shape.input_norm, shape.norm_output) == (False, True, False)
    with pytest.raises(ConfigError, match="twice"):
        open_checkpoint(write(tmp_path / "c", each | whole, config))
    with pytest.raises(ConfigError, match="norm_output"):
        open_checkpoint(write(tmp_path / "d", tensors, config | {"norm_output": False}))


@pytest.mark.parametrize(
    ("changes", "settings", "word"),
    [
        ({"norm.weight": None}, {}, "missing: model.norm.weight"),
        ({"more": torch.zeros(3)}, {}, "unknown: more"),
        ({"midlayer.self_attn.q_proj.weight": torch.zeros(32, 32)}, {}, "q_proj.weight is"),
        ({"midlayer.self_attn.q_proj.bias": torch.zeros(32)}, {}, "unknown"),
        ({"d2t": torch.tensor([3, 5, 40, 47])}, {}, "offsets"),
        ({"fc.weight": torch.zeros(32, 95)}, {"target_hidden_size": 32}, "no multiple"),
        ({}, {"hidden_act": "gelu"}, "gelu"),
        ({"fc.weight": torch.zeros(32, 72)}, {"target_hidden_size": 24}, "no embedding"),
    ],
)
def test_loading_is_strict(tmp_path: Path, changes: dict[str, Any], settings: dict[str, Any], word: str) -> None:
    tensors, config = head_tensors(target().config, ids=IDS)
    tensors = {name: value for name, value in (tensors | changes).items() if value is not None}
    with pytest.raises(SaguaroError, match=word) as caught:
        built(write(tmp_path, tensors, config | settings))
    assert str(caught.value).endswith(".")


def test_heads_of_the_earlier_papers_are_refused_by_name(tmp_path: Path) -> None:
    tensors = {"fc.weight": torch.zeros(32, 64), "layers.0.self_attn.q_proj.weight": torch.zeros(32, 32)}
    with pytest.raises(ConfigError, match="EAGLE-2"):
        open_checkpoint(write(tmp_path, tensors, head_tensors(target().config)[1]))


def test_a_pickle_of_anything_else_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {}, {"draft_vocab_size": 4})
    (tmp_path / "model.safetensors").unlink()
    torch.save({"fc.weight": Path("x")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="plain tensors"):
        open_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    ("layers", "stated", "asked", "wanted"),
    [
        (32, None, None, (2, 16, 29)),
        (32, (2, 16, 29), None, (2, 16, 29)),
        (32, (1, 15, 28), None, (2, 16, 29)),
        (61, (2, 30, 58), None, (2, 30, 58)),
        (61, (1, 29, 57), None, (2, 30, 58)),
        (32, (4, 8, 12), None, "by inputs or by outputs"),
        (32, (4, 8, 12), [5, 9, 13], (5, 9, 13)),
        (32, None, [0, 16, 32], (0, 16, 32)),
        (32, None, [0, 16, 33], "0 ... 32"),
        (32, None, [0, 16], "3 layers"),
        (32, None, [0, 16, "x"], "3 layers"),
    ],
)
def test_which_layers_are_tapped(layers: int, stated: Any, asked: Any, wanted: Any) -> None:
    shape = Eagle3Shape(target_hidden=8, num_taps=3, fused=True, own_embedding=False, stated_taps=stated)
    if isinstance(wanted, str):
        with pytest.raises(ConfigError, match=wanted):
            tap_layers(shape, layers, asked)
    else:
        assert tap_layers(shape, layers, asked) == wanted


def test_one_tap_has_to_be_named() -> None:
    shape = Eagle3Shape(target_hidden=8, num_taps=1, fused=False, own_embedding=False)
    with pytest.raises(ConfigError, match="taps"):
        tap_layers(shape, 8)
    assert tap_layers(shape, 8, [8]) == (8,)


def test_the_pair_is_checked_before_anything_is_loaded(tmp_path: Path) -> None:
    source = write(tmp_path / "a", *head_tensors(target().config, ids=IDS))
    plan = resolve(EngineConfig.from_options(TARGET, source, mode="sd"))
    assert (plan.taps, plan.tap_width) == ((2, 4, 5), 96)
    for said in ([0, 4, 8], "0,4,8"):
        assert resolve(EngineConfig.from_options(TARGET, source, drafter_options={"taps": said})).taps == (0, 4, 8)
    wider = TARGET.replace("vocab=48", "vocab=50")
    for options, word in (
        ({"target": wider}, "vocabulary of 48"),
        ({"target": TARGET.replace("hidden=32", "hidden=64")}, "hidden size of 32"),
        ({"target": source, "draft": None}, "only be a draft"),
        ({"drafter_options": {"taps": [1]}}, "3 layers"),
        ({"drafter_options": {"taps": 7}}, "3 layers"),
        ({"drafter_options": {"taps": "2,x"}}, "list of layers"),
        ({"drafter_options": {"shortlist": 7}}, "not 'shortlist'"),
        ({"draft": TARGET, "drafter_options": {"taps": [1]}}, "is none"),
    ):
        options = {"target": TARGET, "draft": source, "mode": "sd"} | options
        if options["draft"] is None:
            options["mode"] = "ar"
        with pytest.raises(ConfigError, match=word):
            resolve(EngineConfig.from_options(**options))
