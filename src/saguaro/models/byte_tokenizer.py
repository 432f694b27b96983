"""The tokenizer of toy models: bytes, two special tokens, and made-up syllables for the rest of the vocabulary.

From 258 tokens on: ids 0 ... 255 are bytes, 256 ends, 257 begins, the rest are distinct syllables that decoding shows
and encoding never produces. Smaller vocabularies have an end token and letters; encoding folds bytes onto them.
Must not know: models. Tests: tests/models/test_toy.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from saguaro.models.chat import ChatTemplate
from saguaro.models.text import utf8
from saguaro.models.tokenizer_files import write_files
from saguaro.models.vocabulary import Signature, Vocabulary

FULL = 258
END, START = "<|end|>", "<|start|>"
TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
_MATCHED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
_CONSONANTS, _VOWELS = "bdfghjklmnprstvwz", "aeiou"


class ByteTokenizer:
    """See `TextCodec`.

    Args:
        vocab: number of ids.
        stops: whether the end token is a stop id.
    """

    def __init__(self, vocab: int, *, stops: bool = True) -> None:
        self.vocab_size = vocab
        self._end = 256 if vocab >= FULL else 0
        self._start = 257 if vocab >= FULL else None
        self.special_ids = frozenset(token for token in (self._end, self._start) if token is not None)
        self.stop_ids = frozenset({self._end}) if stops else frozenset()
        self._texts = [self._text(token) for token in range(vocab)]

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """The bytes of `text`, folded onto the letters of a small vocabulary. No token is added in front.

        Raises:
            RequestRefused: the string is no text.
        """
        raw = utf8(text)
        if self.vocab_size >= FULL:
            return list(raw)
        return [1 + byte % max(1, self.vocab_size - 1) for byte in raw]

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of `ids`."""
        skipped = self.special_ids if skip_special else frozenset()
        raw = b"".join(self.token_bytes(token) for token in ids if token not in skipped)
        return raw.decode("utf-8", errors="replace")

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token."""
        if self.vocab_size >= FULL and 0 <= token < 256:
            return bytes([token])
        return self._texts[token].encode("utf-8") if 0 <= token < self.vocab_size else b""

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str:
        """One line a message."""
        return ChatTemplate(TEMPLATE).render(messages, **options)

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """Render and encode."""
        return self.encode(self.apply_chat_template(messages, **options), add_special=False)

    def signature(self) -> Signature:
        """Equal for equal sizes."""
        vocabulary = Vocabulary(tokens=self._texts, special=self.special_ids, eos=self._end)
        return Signature(f"toy {self.vocab_size}".encode(), lambda: vocabulary)

    def save(self, directory: Path) -> None:
        """Write a `tokenizer.json` in which every id has the same text; bytes are encoded as here where all are ids."""
        special = sorted(self.special_ids)
        added = [{"id": token, "content": self._texts[token], "special": True} | _MATCHED for token in special]
        model = {"type": "BPE", "vocab": {text: token for token, text in enumerate(self._texts)}, "merges": []}
        whole = {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
            "model": model | {"byte_fallback": True, "fuse_unk": False, "ignore_merges": False},
        }  # fmt: skip
        write_files(
            directory,
            json.dumps(whole, ensure_ascii=False),
            adds_bos=False,
            bos_text="",
            eos_text=END if self.stop_ids else "",
            templates={"default": TEMPLATE},
        )

    def _text(self, token: int) -> str:
        if token == self._end:
            return END
        if token == self._start:
            return START
        if self.vocab_size < FULL:
            return chr(ord("a") + token - 1) if token <= 26 else chr(0x100 + token)
        return f"<0x{token:02X}>" if token < 256 else _syllables(token - FULL)


def _syllables(number: int) -> str:
    """A pronounceable word for `number`, different for each; every third begins with a space."""
    word, rest = "", number
    while True:
        rest, place = divmod(rest, len(_CONSONANTS) * len(_VOWELS))
        word += _CONSONANTS[place % len(_CONSONANTS)] + _VOWELS[place // len(_CONSONANTS)]
        if rest == 0:
            break
        rest -= 1
    return " " + word if number % 3 == 0 else word
