"""From text to ids and back: one class over `tokenizer.json` or over the vocabulary of a GGUF file.

Decoding is done from bytes by ourselves, so that nothing is cleaned up and a stream can stop inside a character. The
beginning token is written once: where text already starts with it, none is added.
Must not know: models, requests, torch. Tests: tests/models/test_tokenizer.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from saguaro.errors import ConfigError, WeightsError
from saguaro.models.chat import ChatTemplate, directory_templates, gguf_templates
from saguaro.models.gguf_tokenizer import build_backend, pre_tokeniser
from saguaro.models.text import utf8
from saguaro.models.tokenizer_files import write_files
from saguaro.models.vocabulary import (
    Signature,
    Vocabulary,
    byte_alphabet,
    compare,
    directory_signature,
    directory_vocabulary,
    gguf_signature,
    gguf_vocabulary,
    tokenizer_settings,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

__all__ = ["TextCodec", "Tokenizer", "compare"]

BYTE_TOKEN = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")
WORD_MARK = "\u2581"


class TextCodec(Protocol):
    """What the engine needs of a tokenizer; `Tokenizer` and the toy models' byte tokenizer offer it."""

    stop_ids: frozenset[int]
    special_ids: frozenset[int]
    vocab_size: int

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Ids of raw text, with the beginning token where the model takes one."""
        ...

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Text of ids."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The piece of UTF-8 that a token stands for."""
        ...

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """Ids of a rendered conversation."""
        ...

    def signature(self) -> Signature:
        """What the ids mean, for `compare`."""
        ...

    def save(self, directory: Path) -> None:
        """Write files from which `Tokenizer.from_directory` reads the same ids."""
        ...


class Tokenizer:
    """Encodes and decodes text, renders chats.

    Attributes:
        vocabulary: ids and their texts.
        stop_ids: ids after which the model has finished, as far as the tokenizer says.
        special_ids: ids that are left out of text.
        vocab_size: tokens that stand for something; padding rows are not counted.
        adds_bos: raw text gets the beginning token.
    """

    def __init__(
        self,
        backend: Backend,
        vocabulary: Vocabulary,
        *,
        signature: Signature,
        templates: Mapping[str, str],
        adds_bos: bool,
        pieces_are_words: bool = False,
    ) -> None:
        self._backend = backend
        self._signature = signature
        self._templates = templates
        self._pieces_are_words = pieces_are_words
        self._bytes: dict[int, bytes] = {}
        self._alphabet = byte_alphabet()
        self.vocabulary = vocabulary
        self.adds_bos = adds_bos and vocabulary.bos is not None
        self.stop_ids = vocabulary.stop_ids
        self.special_ids = vocabulary.special
        self.vocab_size = sum(text is not None for text in vocabulary.tokens)

    @classmethod
    def from_directory(cls, directory: Path) -> Tokenizer:
        """Read `tokenizer.json` and what stands beside it.

        Raises:
            WeightsError: missing or damaged files, or a tokenizer that is neither byte-level nor word-piece BPE.
        """
        from tokenizers import Tokenizer as Backend

        vocabulary, settings = directory_vocabulary(directory), tokenizer_settings(directory)
        try:
            backend = Backend.from_file(str(directory / "tokenizer.json"))
        except Exception as error:  # the package raises plain Exception
            raise WeightsError(f"tokenizer.json in {directory} cannot be read: {error}.") from error
        backend.no_truncation()
        backend.no_padding()
        start = backend.encode("", add_special_tokens=True).ids
        adds_bos = bool(start) and start[0] == vocabulary.bos
        if start and vocabulary.bos is None:
            vocabulary, adds_bos = replace(vocabulary, bos=start[0]), True
        if isinstance(settings.get("add_bos_token"), bool):
            adds_bos = settings["add_bos_token"]
        return cls(
            backend,
            vocabulary,
            signature=directory_signature(directory),
            templates=directory_templates(directory, settings),
            adds_bos=adds_bos,
            pieces_are_words=not _is_byte_level(backend),
        )

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> Tokenizer:
        """Build from GGUF metadata.

        Raises:
            ConfigError, WeightsError: as `build_backend`.
        """
        vocabulary = gguf_vocabulary(metadata)
        return cls(
            build_backend(metadata, vocabulary),
            vocabulary,
            signature=gguf_signature(metadata),
            templates=gguf_templates(metadata),
            adds_bos=bool(metadata.get("tokenizer.ggml.add_bos_token", pre_tokeniser(metadata).adds_bos)),
        )

    @property
    def bos_id(self) -> int | None:
        """The beginning token, also of models that never take one."""
        return self.vocabulary.bos

    @property
    def bos_text(self) -> str:
        """Text of the beginning token; empty without one."""
        return self._text_of(self.vocabulary.bos)

    @property
    def eos_text(self) -> str:
        """Text of the end token; empty without one."""
        return self._text_of(self.vocabulary.eos)

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Ids of `text`; special tokens written in it are matched whole.

        With `add_special` the beginning token is put in front where the model takes one and the text does not start
        with it already.

        Raises:
            RequestRefused: the string is no text (half of a surrogate pair).
        """
        utf8(text)
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        bos = self.vocabulary.bos
        if add_special and self.adds_bos and bos is not None and ids[:1] != [bos]:
            return [bos, *ids]
        return ids

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of `ids`; incomplete characters become U+FFFD."""
        kept = [token for token in ids if not (skip_special and token in self.special_ids)]
        raw = self.decode_bytes(kept)
        if self._pieces_are_words and kept and raw.startswith(b" ") and kept[0] not in self.special_ids:
            raw = raw[1:]  # the mark before the first word of a text stands for no space
        return raw.decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of all `ids`, special ones included."""
        return b"".join(self.token_bytes(token) for token in ids)

    def token_bytes(self, token: int) -> bytes:
        """The piece of UTF-8 that `token` stands for; empty for padding and for ids beyond the vocabulary."""
        piece = self._bytes.get(token)
        if piece is None:
            piece = self._bytes[token] = self._piece(token)
        return piece

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str:
        """Render a conversation; see `ChatTemplate.render` for the options.

        Raises:
            ConfigError: the model has no chat template.
            RequestRefused: the template refuses the messages.
        """
        return self.chat_template(with_tools=bool(options.get("tools"))).render(messages, **options)

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """Render and encode. The template writes the beginning token itself, so none is added."""
        return self.encode(self.apply_chat_template(messages, **options), add_special=False)

    def chat_template(self, *, with_tools: bool = False) -> ChatTemplate:
        """The template in use: the one called `tool_use` when there are tools and it exists, else the default."""
        name = "tool_use" if with_tools and "tool_use" in self._templates else "default"
        if name not in self._templates:
            raise ConfigError("the model has no chat template; give a plain prompt instead of messages.")
        return self._compiled(name)

    def signature(self) -> Signature:
        """For `vocabulary.compare`."""
        return self._signature

    def save(self, directory: Path) -> None:
        """Write `tokenizer.json` and its settings into a directory."""
        write_files(
            directory,
            self._backend.to_str(),
            adds_bos=self.adds_bos,
            bos_text=self.bos_text,
            eos_text=self.eos_text,
            templates=self._templates,
        )

    def _compiled(self, name: str) -> ChatTemplate:
        if name not in self._compiled_templates:
            source = self._templates[name]
            self._compiled_templates[name] = ChatTemplate(source, bos_text=self.bos_text, eos_text=self.eos_text)
        return self._compiled_templates[name]

    @cached_property
    def _compiled_templates(self) -> dict[str, ChatTemplate]:
        return {}

    def _text_of(self, token: int | None) -> str:
        return "" if token is None else self.vocabulary.tokens[token] or ""

    def _piece(self, token: int) -> bytes:
        if not 0 <= token < len(self.vocabulary.tokens):
            return b""
        text = self.vocabulary.tokens[token]
        if text is None:
            return b""
        if token in self.special_ids or token in self.vocabulary.added:
            return text.encode("utf-8")
        if self._pieces_are_words:
            byte = BYTE_TOKEN.match(text)
            return bytes([int(byte.group(1), 16)]) if byte else text.replace(WORD_MARK, " ").encode("utf-8")
        if all(letter in self._alphabet for letter in text):
            return bytes(self._alphabet[letter] for letter in text)
        return text.encode("utf-8")


def _is_byte_level(backend: Backend) -> bool:
    """Whether tokens are spelled in the byte alphabet (else with word marks and `<0x0A>` bytes)."""
    described = repr(backend.decoder)
    if "ByteLevel" in described:
        return True
    if WORD_MARK in described or "Metaspace" in described or "ByteFallback" in described:
        return False
    raise WeightsError("tokenizer.json describes no decoder that is known here (byte-level or word marks).")
