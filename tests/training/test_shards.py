"""Shards are made once, whole, in their order; time that is over ends it before the next one."""

import pytest
import torch
from safetensors.torch import load_file
from tests.training.conftest import TARGET

from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.training.laws import law_path
from saguaro.training.shards import Shards
from saguaro.training.texts import Job, Text, path_of, read
from saguaro.training.writer import Writer

JOBS = [Job((2 + i, 3), 0.0, i) for i in range(7)]
OWN = [Text((1, 2, 3), 1), Text((4, 5), 1)]
SHARDS = [("00000", JOBS[:3]), ("00001", OWN), ("00002", JOBS[3:])]


@pytest.fixture(scope="module")
def model():
    return build_model(open_checkpoint(TARGET), make_ops("native", "float32"))


def nobody():
    raise AssertionError("the model is not needed")


def writer(model):
    return Writer(model, max_tokens=5, max_length=64, top_k=3, stop_ids=(), rows=2)


def make(folder, open_model, shards=SHARDS, goes_on=lambda name: True):
    told = []
    make = Shards(folder, shards, open_model, writer, 3, goes_on, lambda texts, count: told.append((texts, count)))
    return make.write(), told


def test_shards_hold_their_texts_with_laws(model, tmp_path):
    names, told = make(tmp_path, lambda: model)
    assert names == ["00000", "00001", "00002"]
    assert sorted(told) == sorted([(3, 15), (2, 3), (4, 20)])
    for name, items in SHARDS:
        texts, laws = read(path_of(tmp_path, name)), load_file(law_path(tmp_path, name))
        given = [item.prompt if isinstance(item, Job) else item.tokens for item in items]
        assert [text.tokens[: len(ids)] for text, ids in zip(texts, given, strict=True)] == given
        assert len(laws["own"]) == sum(len(text.tokens) - text.start for text in texts)
        following = torch.tensor([token for text in texts for token in text.tokens[text.start :]])
        greedy = laws["ids"][:, 0] == following
        assert greedy.all() == (name != "00001")


def test_what_is_there_is_not_made_again(model, tmp_path):
    make(tmp_path, lambda: model)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    names, told = make(tmp_path, nobody)
    assert (names, len(told)) == (["00000", "00001", "00002"], 3)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    law_path(tmp_path, "00002").unlink()
    names, _ = make(tmp_path, lambda: model)
    assert names == ["00000", "00001", "00002"]


def test_time_that_is_over_ends_it_before_the_next_shard(model, tmp_path):
    assert make(tmp_path, nobody, goes_on=lambda name: False) == ([], [])
    names, _ = make(tmp_path, lambda: model, goes_on=lambda name: name == "00000")
    assert names == ["00000"]
    assert {path.name for path in tmp_path.iterdir()} == {"texts-00000.safetensors", "laws-00000.safetensors"}
