"""Tiny drafts whose tokenizer is another one than their target's: the same bytes under other ids, and merges."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.config_json import config_json

BYTES = 258
BYTE_TARGET = f"toy:llama?seed=1&vocab={BYTES}&layers=2"
DIFFICULT = [
    "",
    " ",
    "    four spaces\n\tand a tab\r\n\r\n",
    "def f(x):\n    return {'a': x + 1}  # naïve café",
    "3,141.59 1234567890 0x1F 2026-11-30",
    "東京タワー、数学。Привет, мир! مرحبا नमस्ते",
    "🌵👩‍👩‍👧‍👦🏳️‍🌈 e\u0301 a\u030a\u0323",
    "\x00\x07\x7f\u200b\ufeff\ufffd",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|> <|begin|>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "I'm   'll don't\u00a0won’t —–… ½ ²",
]


def shuffled(folder: Path, source: str = BYTE_TARGET, *, seed: int = 0) -> str:
    """The model at `source` (of `BYTES` ids) with its ids in another order: what it says is the same text."""
    order = list(range(BYTES))  # row of each new id
    random.Random(seed).shuffle(order)
    toy = open_checkpoint(source)
    tensors = dict(toy.tensors())
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors[name][order].contiguous()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_json(toy.config) | {"eos_token_id": order.index(256)}))
    ByteTokenizer(BYTES).save(folder)
    path = folder / "tokenizer.json"
    whole = json.loads(path.read_text("utf-8"))
    place = {old: new for new, old in enumerate(order)}
    whole["model"]["vocab"] = {text: place[token] for text, token in whole["model"]["vocab"].items()}
    for entry in whole["added_tokens"]:
        entry["id"] = place[entry["id"]]
    whole["added_tokens"].sort(key=lambda entry: entry["id"])
    path.write_text(json.dumps(whole, ensure_ascii=False), "utf-8")
    return str(folder)


def merged(folder: Path, *, seed: int = 3, vocab: int = 330) -> str:
    """A random model with a byte-level BPE that was trained on a few lines."""
    write_bpe(folder, vocab=vocab)
    toy = open_checkpoint(f"toy:llama?seed={seed}&vocab={vocab}&layers=2")
    save_file(dict(toy.tensors()), folder / "model.safetensors")
    end = json.loads((folder / "tokenizer.json").read_text("utf-8"))["added_tokens"][0]["id"]
    (folder / "config.json").write_text(json.dumps(config_json(toy.config) | {"eos_token_id": end}))
    return str(folder)


def write_bpe(folder: Path, *, vocab: int = 330, **settings: Any) -> None:
    """Files of a byte-level BPE tokenizer, with all single bytes and an end."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"],
        show_progress=False,
    )
    backend.train_from_iterator(DIFFICULT * 3, trainer)
    assert backend.get_vocab_size() == vocab
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>", **settings}))


def write_words(folder: Path) -> None:
    """Files of a tokenizer that marks words and begins each text with such a mark, as Llama 2's does."""
    letters = [*"abcdefghijklmnopqrstuvwxyz", "▁"]
    pieces = ["th", "the", "▁the", "▁a", "in", "ing"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "a"), ("i", "n"), ("in", "g")]
    texts = ["<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *pieces]
    special = [
        {"id": token, "content": texts[token], "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for token in (0, 1)
    ]  # fmt: skip
    mark = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, mark]}
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    model = {
        "type": "BPE", "vocab": {text: token for token, text in enumerate(texts)}, "merges": [list(m) for m in merges],
        "byte_fallback": True, "fuse_unk": False, "ignore_merges": False,
    }  # fmt: skip
    whole = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": normalizer,
        "pre_tokenizer": None, "post_processor": None, "model": model,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}]},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False), "utf-8")
    settings = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
