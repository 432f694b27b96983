"""Packed weights on disk: the same bits back, and anything wrong with the file only costs a repack."""

import logging
import os
from pathlib import Path

import pytest
import torch

from saguaro.models import packed_cache
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.decoder import pack_weights

SOURCES = {
    "qwen2 int8": ("toy:qwen2", "int8"),
    "qwen3 int4": ("toy:qwen3", "int4"),
    "llama bfloat16, tied": ("toy:llama?tied=1", "bfloat16"),
    "llama float32": ("toy:llama", "float32"),
}
IDS = list(range(1, 12))


@pytest.fixture
def counted(monkeypatch):
    """How often weights were packed."""
    calls = []
    monkeypatch.setattr(
        "saguaro.models.build.pack_weights", lambda *args, **more: calls.append(1) or pack_weights(*args, **more)
    )
    return calls


def build(source, kind, folder, **options):
    return build_model(open_checkpoint(source), make_ops("native", kind), cache_dir=folder, **options)


def only_file(folder):
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize("name", SOURCES)
def test_the_second_start_packs_nothing_and_computes_the_same_bits(name, tmp_path, logits_of, counted):
    source, kind = SOURCES[name]
    fresh = logits_of(build(source, kind, None), IDS)
    first = logits_of(build(source, kind, tmp_path), IDS)
    assert len(counted) == 2
    again = logits_of(build(source, kind, tmp_path), IDS)
    assert len(counted) == 2, "loaded"
    assert torch.equal(fresh, first)
    assert torch.equal(fresh, again)
    assert only_file(tmp_path).suffix == ".packed", "nothing temporary is left"


def test_kinds_and_models_have_files_of_their_own_and_short_heads_share_them(tmp_path, logits_of):
    whole = logits_of(build("toy:llama", "int8", tmp_path), IDS)
    short = build("toy:llama", "int8", tmp_path, head_ids=[7, 3])
    short = build("toy:llama", "int8", tmp_path, head_ids=[7, 3])
    assert short.short_head.ids_S.tolist() == [7, 3]
    assert torch.equal(logits_of(short, IDS), whole[:, [7, 3]])
    build("toy:llama", "bfloat16", tmp_path)
    build("toy:llama?seed=1", "int8", tmp_path)
    build("toy:truncate=1:toy:llama", "int8", tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


DAMAGE = {
    "cut short": lambda data: data.__delitem__(slice(len(data) // 2, None)),
    "empty": lambda data: data.clear(),
    "only the magic": lambda data: data.__delitem__(slice(8, None)),
    "longer": lambda data: data.extend(b"x"),
    "other magic": lambda data: data.__setitem__(0, data[0] ^ 1),
    "header length": lambda data: data.__setitem__(15, 0xFF),
    "header": lambda data: data.__setitem__(40, data[40] ^ 1),
    "weights": lambda data: data.__setitem__(9000, data[9000] ^ 1),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_packed_again_with_one_warning(name, tmp_path, logits_of, counted, caplog):
    expected = logits_of(build("toy:llama", "int8", tmp_path), IDS)
    path = only_file(tmp_path)
    data = bytearray(path.read_bytes())
    before = bytes(data)
    DAMAGE[name](data)
    assert bytes(data) != before
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert torch.equal(logits_of(build("toy:llama", "int8", tmp_path), IDS), expected)
    assert len(counted) == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert path.read_bytes() == before, "and written anew"


def test_a_file_of_another_key_is_not_used(tmp_path, logits_of, counted):
    build("toy:llama", "int8", tmp_path)
    path = only_file(tmp_path)
    build("toy:llama?seed=1", "int8", tmp_path)
    other = next(file for file in tmp_path.iterdir() if file != path)
    os.replace(path, other)
    expected = logits_of(build("toy:llama?seed=1", "int8", None), IDS)
    assert torch.equal(logits_of(build("toy:llama?seed=1", "int8", tmp_path), IDS), expected)
    assert len(counted) == 4


def test_an_update_of_the_model_or_the_kernels_replaces_the_file(tmp_path, save_tiny, counted, caplog, monkeypatch):
    _, directory = save_tiny("llama")
    build(str(directory), "int8", tmp_path)
    (directory / "config.json").touch()
    build(str(directory), "int8", tmp_path)
    monkeypatch.setattr("saguaro.models.layers.native_ops.library_path", lambda: Path("kernels-next.so"))
    build(str(directory), "int8", tmp_path)
    build(str(directory), "int8", tmp_path)
    assert len(counted) == 3
    assert only_file(tmp_path)
    assert not caplog.records, "an update is nothing to warn about"


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, logits_of, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        model = build("toy:llama", "int8", blocked)
    assert torch.isfinite(logits_of(model, IDS)).all()
    assert "not kept" in caplog.text


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packed_cache.os, "replace", full)
    build("toy:llama", "int8", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_operations_that_pack_nothing_are_not_cached(tmp_path):
    build_model(open_checkpoint("toy:llama"), make_ops("torch", "float32"), cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_linears_are_in_aligned_memory(tmp_path):
    build("toy:qwen3", "int8", tmp_path)
    weights = build("toy:qwen3", "int8", tmp_path).weights
    for linear in (weights.head, *(layer.qkv for layer in weights.layers)):
        assert all(tensor.data_ptr() % 64 == 0 for tensor in linear.tensors.values())
