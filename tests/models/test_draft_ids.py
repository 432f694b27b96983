"""The map of a draft's own vocabulary: offsets that lead to different ids, and a directory that holds one."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from saguaro.errors import ConfigError, WeightsError
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.config_json import config_json
from saguaro.models.draft_ids import target_ids

TOY = "toy:llama?seed=1&vocab=48&layers=1"
IDS = [1, 40, 7, 47]


def written(folder: Path, **changes) -> Path:
    """A directory whose head has the rows of IDS; `changes` replace tensors (None leaves one out)."""
    toy = open_checkpoint(TOY)
    tensors = dict(toy.tensors())
    tensors["lm_head.weight"] = tensors["lm_head.weight"][IDS].contiguous()
    tensors["d2t"] = torch.tensor(IDS) - torch.arange(len(IDS))
    tensors["t2d"] = torch.isin(torch.arange(48), torch.tensor(IDS))
    tensors |= changes
    save_file({name: value for name, value in tensors.items() if value is not None}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_json(toy.config, draft_vocab=len(IDS))))
    toy.save_tokenizer(folder)
    return folder


def test_offsets_lead_to_ids():
    assert target_ids([1, 39, 5, 44], vocab=48, where="x") == IDS
    for wrong, word in (([1, 47], "outside|tokens"), ([-1], "offsets"), ([1, 0], "two rows")):
        with pytest.raises(WeightsError, match=word) as caught:
            target_ids(wrong, vocab=48, where="x")
        assert str(caught.value).endswith(".")


@pytest.mark.parametrize("kind", ["float32", "int4"])
def test_a_head_of_its_own_gives_the_logits_of_its_tokens(tmp_path, kind, logits_of):
    checkpoint = open_checkpoint(str(written(tmp_path)))
    assert (checkpoint.config.vocab, checkpoint.config.draft_vocab, checkpoint.draft_ids()) == (48, 4, IDS)
    whole = logits_of(build_model(open_checkpoint(TOY), make_ops("native", kind)), [5, 6, 7])
    for kept, cache in ((IDS, None), ([40, 1], tmp_path / "cache"), ([40, 1], tmp_path / "cache")):
        model = build_model(checkpoint, make_ops("native", kind), head_ids=kept, cache_dir=cache)
        assert model.short_head.ids_S.tolist() == kept
        assert torch.equal(logits_of(model, [5, 6, 7]), whole[:, kept])
    with pytest.raises(ConfigError, match="only be a draft"):
        build_model(checkpoint, make_ops("native", kind))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"d2t": None}, "missing: d2t"),
        ({"d2t": torch.tensor([0, 1, 2])}, "d2t is"),
        ({"d2t": torch.tensor([0.0, 1.0, 2.0, 3.0])}, None),
        ({"lm_head.weight": torch.zeros(48, 64)}, "lm_head.weight is"),
        ({"more": torch.zeros(4)}, "unknown: more"),
    ],
)
def test_loading_is_strict(tmp_path, changes, word):
    checkpoint = open_checkpoint(str(written(tmp_path, **changes)))
    if word is None:
        assert checkpoint.draft_ids() == [0, 2, 4, 6]
        return
    with pytest.raises(WeightsError, match=word):
        checkpoint.draft_ids()


def test_whole_numbers_elsewhere_are_no_weights(tmp_path):
    written(tmp_path, **{"model.norm.weight": torch.ones(64, dtype=torch.int64)})
    with pytest.raises(WeightsError, match="model.norm.weight is stored as I64"):
        open_checkpoint(str(tmp_path)).weights()
