"""Opening models: what is no model is one sentence before torch is imported; kinds, fingerprints, truncation."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from saguaro.errors import ConfigError, SaguaroError, WeightsError
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint, probe

SRC = Path(__file__).resolve().parents[2] / "src"


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("no-such-thing", "no model 'no-such-thing'"),
        ("./missing/dir", "no model"),
        ("missing.gguf", "no model"),
        ("a/b/missing.gguf", "no model"),
        ("", "not a model"),
        ("x" * 5000, "no model"),
        ("a\0b", "no model"),
    ],
)
def test_missing_paths(source, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SaguaroError, match=word):
        probe(source)


def test_things_that_are_no_model(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(WeightsError, match="not a model"):
        probe(str(tmp_path / "notes.txt"))
    (tmp_path / "empty.gguf").write_bytes(b"")
    with pytest.raises(WeightsError, match="not a model"):
        probe(str(tmp_path / "empty.gguf"))
    (tmp_path / "x.safetensors").write_bytes(b"12345678")
    with pytest.raises(ConfigError, match="directory"):
        probe(str(tmp_path / "x.safetensors"))
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(WeightsError, match=r"no config\.json"):
        probe(str(folder))
    (folder / "config.json").write_text("[]")
    with pytest.raises(WeightsError, match="JSON object"):
        probe(str(folder))
    (folder / "config.json").write_text("{")
    with pytest.raises(WeightsError, match="damaged"):
        probe(str(folder))


def test_a_wrong_path_is_answered_without_torch_in_half_a_second(tmp_path):
    code = (
        "import sys, time\nstart = time.process_time()\nfrom saguaro.models.checkpoint import probe\n"
        "try:\n    probe('missing.gguf')\nexcept ValueError as error:\n    message = str(error)\n"
        "print(time.process_time() - start, 'torch' in sys.modules, message)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    seconds, has_torch, message = done.stdout.split(" ", 2)
    assert has_torch == "False"
    assert "missing.gguf" in message
    assert float(seconds) < 0.5


def test_fingerprints_follow_the_files(save_tiny):
    from safetensors.torch import load_file, save_file

    _, directory = save_tiny("llama")
    before = open_checkpoint(str(directory)).fingerprint
    assert open_checkpoint(str(directory)).fingerprint == before
    tensors = load_file(directory / "model.safetensors")
    tensors["model.norm.weight"][0] += 1
    time.sleep(0.01)
    save_file(tensors, directory / "model.safetensors")
    assert open_checkpoint(str(directory)).fingerprint != before


def test_the_first_layers_of_a_model(save_tiny, logits_of):
    theirs, directory = save_tiny("llama", num_hidden_layers=3)
    ops = make_ops("torch", "float32")
    checkpoint = open_checkpoint(f"toy:truncate=2:{directory}")
    assert checkpoint.config.num_layers == 2
    assert checkpoint.fingerprint != open_checkpoint(str(directory)).fingerprint
    del theirs.model.layers[2]
    with torch.no_grad():
        expected = theirs(torch.tensor([[1, 2, 3]])).logits[0]
    torch.testing.assert_close(logits_of(build_model(checkpoint, ops), [1, 2, 3]), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("count", [0, 3, 99])
def test_more_layers_than_there_are(count, save_tiny):
    _, directory = save_tiny("llama")
    with pytest.raises(ConfigError, match=rf"keeps {count} layers.*1 \.\.\. 2"):
        open_checkpoint(f"toy:truncate={count}:{directory}")


def test_a_directory_with_one_gguf_is_that_file(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    with pytest.raises(WeightsError, match=r"a\.gguf is damaged"):
        probe(str(tmp_path))
    (tmp_path / "b.gguf").write_bytes(b"GGUF")
    with pytest.raises(ConfigError, match=r"several GGUF files; name one of them: a\.gguf, b\.gguf"):
        probe(str(tmp_path))


def test_stop_ids_include_the_tokenizer_s(save_tiny, edit_config, make_backend):
    _, directory = save_tiny("qwen2")
    edit_config(directory, eos_token_id=7)
    (directory / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    assert open_checkpoint(str(directory)).config.stop_ids == {7, 9}
    backend = make_backend(r"\p{L}+|[^\p{L}]")
    backend.save(str(directory / "tokenizer.json"))
    turn = backend.token_to_id("<|eot_id|>")
    for eos in ("<|pad|>", "T", None):  # a special token, an ordinary one, none
        (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos and {"content": eos}}))
        added = {turn} | ({backend.token_to_id(eos)} if eos else set())
        checkpoint = open_checkpoint(str(directory))
        assert checkpoint.config.stop_ids == {7, 9} | added
        assert checkpoint.tokenizer().stop_ids == added
    assert checkpoint.tokenizer() is checkpoint.tokenizer(), "built once"


def test_tensors_are_listed_in_reading_order(save_tiny):
    theirs, directory = save_tiny("qwen3", head_dim=16)
    for name, tensor in open_checkpoint(str(directory)).tensors():
        assert torch.equal(tensor, theirs.state_dict()[name])
