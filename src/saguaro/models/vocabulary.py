"""What the ids of a tokenizer mean, read from raw files, and whether two models agree about it.

A draft never encodes text: it only has to mean the same string by the same id. So two vocabularies agree when every id
that both have stands for the same text. Rows that only one side has (padding up to a round number, or tokens added
behind the other's last) are allowed: the other side treats them as padding. Comparing costs a hash of the raw bytes;
only when hashes differ are the strings decoded and looked at one by one.
Must not know: how text is split, torch. Tests: tests/models/test_vocabulary.py.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from saguaro.errors import WeightsError
from saguaro.models.config import END_TEXTS
from saguaro.models.weights.gguf_header import StringArray

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


@dataclass(frozen=True)
class Vocabulary:
    """Ids and their texts.

    Args:
        tokens: text of each id as the file spells it; None where an id stands for nothing (padding).
        special: ids that are left out of text.
        added: ids matched whole in text although they are not special.
        eos: id named as the end of a sequence.
        bos: id named as the beginning.
    """

    tokens: Sequence[str | None]
    special: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()
    eos: int | None = None
    bos: int | None = None

    @property
    def stop_ids(self) -> frozenset[int]:
        """The named end, and every special token whose text ends a turn or a document."""
        by_text = {token for token in self.special if self.tokens[token] in END_TEXTS}
        return frozenset(by_text | ({self.eos} if self.eos is not None else set()))


@dataclass(frozen=True)
class Signature:
    """A fingerprint of a vocabulary and the means to read it in full.

    Two signatures with the same digest are the same vocabulary; with different ones `compare` looks.
    """

    digest: bytes
    read: Callable[[], Vocabulary] = field(compare=False, repr=False)


def compare(target: Signature, draft: Signature) -> str | None:
    """None if both models mean the same by every id that both have; else one sentence naming the first that differs."""
    if target.digest == draft.digest:
        return None
    ours, theirs = target.read().tokens, draft.read().tokens
    for token, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a is not None and b is not None and a != b:
            return f"the tokenizers differ: id {token} is {a!r} in the target and {b!r} in the draft."
    return None


def gguf_signature(metadata: Mapping[str, Any]) -> Signature:
    """Signature of the vocabulary inside GGUF metadata.

    Raises:
        WeightsError: the file has no vocabulary.
    """
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, StringArray):
        raise WeightsError("the GGUF file holds no tokenizer vocabulary.")
    types = metadata.get("tokenizer.ggml.token_type") or []
    digest = hashlib.blake2b(tokens.raw, digest_size=16)
    digest.update(bytes(kind & 0xFF for kind in types))
    return Signature(b"gguf" + digest.digest(), lambda: gguf_vocabulary(metadata))


def gguf_vocabulary(metadata: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary of GGUF metadata; `[PADn]` fillers (type unused) are None.

    Raises:
        WeightsError: no vocabulary, or token types of another length.
    """
    array = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(array, StringArray):
        raise WeightsError("the GGUF file holds no tokenizer vocabulary.")
    types = metadata.get("tokenizer.ggml.token_type") or [NORMAL] * len(array)
    if len(types) != len(array):
        raise WeightsError(f"the GGUF file types {len(types)} tokens of {len(array)}; it is damaged.")
    tokens = [None if kind == UNUSED else text for text, kind in zip(array.decode(), types, strict=True)]
    return Vocabulary(
        tokens=tokens,
        special=frozenset(token for token, kind in enumerate(types) if kind == CONTROL),
        added=frozenset(token for token, kind in enumerate(types) if kind == USER_DEFINED),
        eos=metadata.get("tokenizer.ggml.eos_token_id"),
        bos=metadata.get("tokenizer.ggml.bos_token_id"),
    )


def directory_signature(directory: Path) -> Signature:
    """Signature of `tokenizer.json` in a directory.

    Raises:
        WeightsError: there is none.
    """
    raw = _tokenizer_bytes(directory)
    return Signature(b"json" + hashlib.blake2b(raw, digest_size=16).digest(), lambda: directory_vocabulary(directory))


def directory_vocabulary(directory: Path) -> Vocabulary:
    """The vocabulary of `tokenizer.json`, with bos and eos from `tokenizer_config.json`.

    Raises:
        WeightsError: no tokenizer.json, a damaged one, or one of a kind that is not read here (only BPE is).
    """
    try:
        whole = json.loads(_tokenizer_bytes(directory))
        vocab: dict[str, int] = whole["model"]["vocab"]
        added: list[dict[str, Any]] = whole.get("added_tokens") or []
        kind = whole["model"].get("type", "BPE")
        if kind != "BPE" or not isinstance(vocab, dict):
            raise WeightsError(f"the tokenizer in {directory} is of the kind {kind}; only BPE is read.")
        size = 1 + max([*vocab.values(), *(entry["id"] for entry in added)], default=-1)
        tokens: list[str | None] = [None] * size
        for text, token in vocab.items():
            tokens[token] = text
        for entry in added:
            tokens[entry["id"]] = entry["content"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, WeightsError):
            raise
        raise WeightsError(f"tokenizer.json in {directory} is damaged: {error}.") from error
    special = frozenset(entry["id"] for entry in added if entry.get("special"))
    ids = vocab | {entry["content"]: entry["id"] for entry in added}
    settings = tokenizer_settings(directory)
    return Vocabulary(
        tokens=tokens,
        special=special,
        added=frozenset(entry["id"] for entry in added) - special,
        eos=ids.get(_named(settings, "eos")),
        bos=ids.get(_named(settings, "bos")),
    )


def directory_stop_ids(directory: Path) -> frozenset[int]:
    """`Vocabulary.stop_ids` of a directory from the list of added tokens alone, in a tenth of the time.

    Raises:
        WeightsError: no tokenizer.json, or a damaged one.
    """
    text = _tokenizer_bytes(directory).decode("utf-8", errors="replace")
    found = re.search(r'"added_tokens"\s*:\s*', text)
    try:
        added = json.JSONDecoder().raw_decode(text, found.end())[0] if found else []
        ids = {entry["content"]: entry["id"] for entry in added}
        stops = {entry["id"] for entry in added if entry.get("special") and entry["content"] in END_TEXTS}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"tokenizer.json in {directory} is damaged: {error}.") from error
    eos = _named(tokenizer_settings(directory), "eos")
    if eos and eos not in ids:
        return directory_vocabulary(directory).stop_ids
    return frozenset(stops | ({ids[eos]} if eos else set()))


def _named(settings: Mapping[str, Any], which: str) -> str:
    """Text of the token that plays a part, from either form in which it is written; empty without one."""
    text = settings.get(f"{which}_token")
    return str(text.get("content") if isinstance(text, dict) else text or "")


def tokenizer_settings(directory: Path) -> dict[str, Any]:
    """`tokenizer_config.json`, completed from `special_tokens_map.json`; empty when there is neither."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = directory / name
        if path.exists():
            try:
                settings |= json.loads(path.read_text("utf-8"))
            except (ValueError, TypeError) as error:
                raise WeightsError(f"{path} is damaged: {error}.") from error
    return settings


def _tokenizer_bytes(directory: Path) -> bytes:
    path = directory / "tokenizer.json"
    if not path.exists():
        raise WeightsError(f"{directory} holds no tokenizer.json.")
    return path.read_bytes()


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[str, int]:
    """The printable stand-ins for bytes in a byte-level vocabulary: character to byte value."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in plain]
    alphabet = {chr(value): value for value in plain}
    alphabet |= {chr(256 + index): value for index, value in enumerate(others)}
    return alphabet
