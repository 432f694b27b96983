"""Toy models: the same numbers for the same string, related pairs, laws that are neither flat nor certain."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saguaro.errors import ConfigError
from saguaro.models.build import build_model, make_ops
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.text import Detokeniser
from saguaro.models.vocabulary import compare


def load(source):
    return build_model(open_checkpoint(source), make_ops("torch", "float32"))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_families(family, logits_of):
    model = load(f"toy:{family}?seed=3&vocab=64&layers=3&hidden=32")
    config = model.config
    assert (config.architecture, config.vocab, config.num_layers, config.hidden) == (family, 64, 3, 32)
    assert config.head_dim == (16 if family == "qwen3" else 8), "qwen3's head size is its own"
    assert (config.qkv_bias, config.qk_norm) == (family == "qwen2", family == "qwen3")
    assert logits_of(model, [1, 2]).shape == (2, 64)


def test_the_string_decides_everything(logits_of):
    ids = list(range(10))
    one, same, other = (logits_of(load(f"toy:llama?seed={seed}"), ids) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert (one - other).abs().max() > 1
    assert open_checkpoint("toy:llama").fingerprint == open_checkpoint("toy:llama?seed=0&vocab=512").fingerprint
    assert open_checkpoint("toy:llama").fingerprint != open_checkpoint("toy:llama?seed=1").fingerprint


def test_laws_are_neither_flat_nor_certain(logits_of):
    ids = torch.randint(0, 256, (64,), generator=torch.Generator().manual_seed(0)).tolist()
    law = logits_of(load("toy:llama"), ids).softmax(-1)
    entropy = -(law * law.log()).sum(-1)
    assert 0.3 < entropy.mean() < 5.5, "log 512 is 6.2"
    best = law.max(-1).values.mean()
    assert 0.1 < best < 0.95
    assert len(set(law.argmax(-1).tolist())) > 20, "not the same answer to everything"


def test_the_last_logits_depend_on_the_first_token(logits_of):
    model = load("toy:qwen3")
    a, b = (logits_of(model, [first, *range(2, 12)])[-1] for first in (0, 1))
    assert (a - b).abs().max() > 0.05


@pytest.mark.parametrize("source", ["toy:llama?noise=", "toy:markov?vocab=64&noise="])
def test_noise_makes_relatives(source, logits_of):
    ids = torch.randint(0, 64, (80,), generator=torch.Generator().manual_seed(0)).tolist()
    target = logits_of(load(source + "0"), ids)
    agreement = []
    for noise in ("0.1", "0.3", "3"):
        draft = logits_of(load(source + noise), ids)
        agreement.append((draft.argmax(-1) == target.argmax(-1)).float().mean().item())
    assert 1 >= agreement[0] > agreement[1] > agreement[2]
    assert 0.15 < agreement[1] < 0.95, "speculation must sometimes fail and often succeed"
    other = logits_of(load(source + "0.3&noise_seed=2"), ids)
    assert not torch.equal(other, draft)


def test_models_of_one_seed_share_their_first_layers():
    shallow, deep = (dict(open_checkpoint(f"toy:llama?layers={n}").tensors()) for n in (1, 3))
    assert all(torch.equal(tensor, deep[name]) for name, tensor in shallow.items())


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("toy:lama", "did you mean 'llama'"),
        ("toy:", "unknown toy model"),
        ("toy:llama?layer=3", "did you mean 'layers'"),
        ("toy:llama?layers=0", "layers of a toy model"),
        ("toy:llama?seed=x", "no number"),
        ("toy:llama?scale=much", "no number"),
        ("toy:llama?kv_heads=3", "3 key-value heads"),
        ("toy:markov?order=0", "order"),
        ("toy:truncate=x:toy:llama", "toy:truncate=4:PATH"),
        ("toy:truncate=4", "toy:truncate=4:PATH"),
    ],
)
def test_refusals(source, word):
    with pytest.raises(ConfigError, match=word):
        open_checkpoint(source)


def test_a_truncated_toy(logits_of):
    whole, cut = load("toy:llama?layers=1"), load("toy:truncate=1:toy:llama?layers=3")
    assert torch.equal(logits_of(whole, [1, 2, 3]), logits_of(cut, [1, 2, 3]))


@given(st.text(max_size=20))
def test_bytes_come_back(text):
    tokenizer = ByteTokenizer(512)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("vocab", [1, 2, 16, 64, 257, 258, 300, 512, 5000])
def test_every_id_has_a_text_and_encoding_stays_inside(vocab):
    tokenizer = ByteTokenizer(vocab)
    texts = [tokenizer.token_bytes(token) for token in range(vocab)]
    assert len(set(texts)) == vocab
    assert all(0 <= token < vocab or vocab == 1 for token in tokenizer.encode("Hello, wörld"))
    ids = list(range(vocab))
    stream = Detokeniser(tokenizer)
    assert stream.push(ids) + stream.finish() == tokenizer.decode(ids)
    assert tokenizer.token_bytes(vocab) == b""


def test_stops_and_chat():
    tokenizer = ByteTokenizer(512)
    assert tokenizer.stop_ids == {256} == open_checkpoint("toy:llama").config.stop_ids
    assert open_checkpoint("toy:llama?eos=0").config.stop_ids == frozenset()
    text = tokenizer.decode(tokenizer.encode_chat([{"role": "user", "content": "hi"}]))
    assert text == "user: hi\nassistant:"


def test_signatures():
    sources = ["toy:llama", "toy:qwen3?seed=5", "toy:llama?vocab=300", "toy:llama?vocab=16"]
    same, other, shorter, letters = (open_checkpoint(source).signature() for source in sources)
    assert compare(same, other) is None
    assert compare(same, shorter) is None, "the rest is padding"
    assert "id 0 is" in compare(same, letters)
