"""What the tests of models share: a way to run one row, tiny checkpoints written by transformers, real files."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from saguaro.attention.base import AttentionPlan

PAGE = 8


@dataclass
class Pool:
    """Keys and values of one row."""

    k: list[torch.Tensor] = field(default_factory=list)
    v: list[torch.Tensor] = field(default_factory=list)


def make_pool(model, num_slots: int) -> Pool:
    shape = (num_slots, model.config.num_kv_heads, model.config.head_dim)
    layers = range(model.config.num_layers)
    return Pool(*([torch.zeros(shape, dtype=model.pool_dtype) for _ in layers] for _ in "kv"))


def int32(values) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.int32)


def extend_plan(start: int, count: int, *, pages: list[int], positions=None) -> AttentionPlan:
    """`count` tokens behind `start` earlier ones of one row."""
    places = range(start, start + count)
    return AttentionPlan(
        positions_T=int32(list(positions) if positions is not None else list(places)),
        slots_T=int32([pages[p // PAGE] * PAGE + p % PAGE for p in places]),
        row_T=torch.zeros(count, dtype=torch.int32),
        tables_RP=int32([pages]),
        shared_T=int32([p + 1 for p in places]),
        own_TS=torch.zeros(count, 1, dtype=torch.int32),
        own_count_T=torch.zeros(count, dtype=torch.int32),
        page_size=PAGE,
    )


@pytest.fixture(scope="session")
def run_row():
    """Hidden states (T, H) of one row run in one call; positions may be spread out."""

    def run(model, ids, *, positions=None, interrupt=None) -> torch.Tensor | None:
        num_pages = -(-len(ids) // PAGE)
        plan = extend_plan(0, len(ids), pages=list(range(num_pages)), positions=positions)
        return model.forward(torch.tensor(ids), plan, make_pool(model, num_pages * PAGE), interrupt=interrupt)

    return run


@pytest.fixture(scope="session")
def logits_of(run_row):
    """Logits (T, V) of one row run in one call."""
    return lambda model, ids, **options: model.logits(run_row(model, ids, **options))


@pytest.fixture(scope="session")
def run_spans():
    """Logits (T, V) of one row run in several calls of the given lengths."""

    def run(model, ids, lengths) -> torch.Tensor:
        num_pages = -(-len(ids) // PAGE)
        pages, pool, parts, start = list(range(num_pages)), make_pool(model, num_pages * PAGE), [], 0
        for length in lengths:
            plan = extend_plan(start, length, pages=pages)
            parts.append(model.logits(model.forward(torch.tensor(ids[start : start + length]), plan, pool)))
            start += length
        return torch.cat(parts)

    return run


@pytest.fixture(scope="session")
def greedy():
    """The most likely continuation: prompt in one call, then one token a call."""

    def run(model, ids, count) -> list[int]:
        num_pages = -(-(len(ids) + count) // PAGE)
        pages, pool, out = list(range(num_pages)), make_pool(model, num_pages * PAGE), []
        new, start = list(ids), 0
        for _ in range(count):
            hidden = model.forward(torch.tensor(new), extend_plan(start, len(new), pages=pages), pool)
            start += len(new)
            new = [int(model.logits(hidden[-1:]).argmax())]
            out += new
        return out

    return run


@pytest.fixture(scope="session")
def real_model(models_directory):
    """Path of a real GGUF file, or a skip with its reason."""

    def path(name: str) -> Path:
        file = models_directory / name
        if not file.exists():
            pytest.skip(f"{name} is not in {models_directory}")
        return file

    return path


@pytest.fixture(scope="session")
def save_tiny(tmp_path_factory):
    """Build a tiny random model with transformers and save it; returns (their model, directory)."""
    import transformers

    def save(family: str, *, seed: int = 0, **changes):
        sizes = {
            "vocab_size": 96,
            "hidden_size": 64,
            "intermediate_size": 80,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 8192,
        }
        names = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
        config = getattr(transformers, f"{names[family]}Config")(**(sizes | changes))
        torch.manual_seed(seed)
        theirs = getattr(transformers, f"{names[family]}ForCausalLM")(config).eval()
        with torch.no_grad():
            for parameter in theirs.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
        directory = tmp_path_factory.mktemp(family)
        theirs.save_pretrained(directory)
        return theirs, directory

    return save


@pytest.fixture
def edit_config():
    """Change config.json of a directory; None removes a key."""

    def edit(directory: Path, **changes) -> None:
        path = directory / "config.json"
        config = json.loads(path.read_text())
        for key, value in changes.items():
            config[key] = value
            if value is None:
                del config[key]
        path.write_text(json.dumps(config))

    return edit


CORPUS = [
    "The quick brown fox doesn't jump over 12345 lazy dogs; they'RE asleep.",
    "def f(x):\n    return {'a': x + 1}  # naïve café — 東京 🌵\r\n\r\n",
    "  leading spaces\tand tabs, 3.14159 and 2026-11-29!!  ",
]
SPECIALS = ["<|begin|>", "<|eot_id|>", "<|pad|>"]
TOOL = "<tool_call>"


@pytest.fixture(scope="session")
def corpus():
    return CORPUS


@pytest.fixture(scope="session")
def make_backend():
    """A small byte-level BPE, trained on the corpus, with a given splitting rule; as a `tokenizers` object."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    def make(pattern, *, whole_words=False, digits=False, compose=False, bos=False):
        backend = Tokenizer(models.BPE(ignore_merges=whole_words))
        split = [pre_tokenizers.Split(Regex(pattern), behavior="isolated")] if pattern else []
        single = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
        backend.pre_tokenizer = pre_tokenizers.Sequence([*single, *split, byte_level])
        backend.decoder = decoders.ByteLevel()
        if compose:
            backend.normalizer = normalizers.NFC()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
        backend.train_from_iterator(CORPUS * 3, trainer)
        backend.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIALS])
        backend.add_tokens([AddedToken(TOOL, normalized=False, special=False)])
        if bos:
            pair = (SPECIALS[0], backend.token_to_id(SPECIALS[0]))
            backend.post_processor = processors.TemplateProcessing(single=f"{SPECIALS[0]} $A", special_tokens=[pair])
        return backend

    return make


@pytest.fixture(scope="session")
def gguf_keys_of():
    """The metadata that a converter would write for a `tokenizers` object, padded to a round number."""
    from saguaro.models.weights.gguf_header import StringArray

    def array(strings):
        raw = b"".join(len(item).to_bytes(8, "little") + item for item in (text.encode() for text in strings))
        return StringArray(raw, len(strings))

    def keys(backend, pre, *, eos="<|pad|>", padding=5, **more):
        described = json.loads(backend.to_str())
        size = backend.get_vocab_size()
        tokens = [backend.id_to_token(token) for token in range(size)] + [f"[PAD{size + n}]" for n in range(padding)]
        special = {entry["id"]: 3 if entry["special"] else 4 for entry in described["added_tokens"]}
        types = [special.get(token, 1) if token < size else 5 for token in range(len(tokens))]
        merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in described["model"]["merges"]]
        return {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": array(tokens),
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": array(merges),
            "tokenizer.ggml.bos_token_id": backend.token_to_id(SPECIALS[0]),
            "tokenizer.ggml.eos_token_id": backend.token_to_id(eos),
        } | more

    return keys
