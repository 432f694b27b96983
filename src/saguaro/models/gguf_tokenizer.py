"""A working tokenizer from the vocabulary and merges inside a GGUF file.

A GGUF names its pre-tokeniser (what splits text before merging) instead of describing it; the rules below are those
names spelled out. Control and user-defined tokens are matched whole; `[PADn]` fillers never match anything.
Sources: the GGUF key list and the published tokenizer files of each family. Must not know: models, chat.
Tests: tests/models/test_gguf_tokenizer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saguaro.errors import ConfigError, WeightsError
from saguaro.models.vocabulary import Vocabulary
from saguaro.models.weights.gguf_header import StringArray
from saguaro.registry import nearest

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


@dataclass(frozen=True)
class PreTokeniser:
    """How text is split before merging.

    Args:
        pattern: regular expression whose matches are the pieces; None is GPT-2's rule.
        single_digits: every digit is cut off first.
        whole_words: a piece that is itself a token is taken as it is, without merging.
        compose: Unicode is brought into composed form (NFC) first.
        adds_bos: the beginning token is added where the metadata is silent.
    """

    pattern: str | None = None
    single_digits: bool = False
    whole_words: bool = False
    compose: bool = False
    adds_bos: bool = False


def _words(digits: str) -> str:
    """Contractions; letters with one mark before them; digits; other marks; line ends; remaining white space."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
        r"|[^\r\n\p{L}\p{N}]?\p{L}+"
        rf"|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+"
        r"|\s+(?!\S)"
        r"|\s+"
    )


_LLAMA3 = PreTokeniser(pattern=_words(r"\p{N}{1,3}"), whole_words=True, adds_bos=True)
PRE_TOKENISERS = {
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": PreTokeniser(pattern=_words(r"\p{N}"), compose=True),
    "smollm": PreTokeniser(single_digits=True),
    "gpt-2": PreTokeniser(),
}


def pre_tokeniser(metadata: Mapping[str, Any]) -> PreTokeniser:
    """The rule that the file names.

    Raises:
        ConfigError: a kind of tokenizer or a pre-tokeniser that is not known here.
    """
    kind = metadata.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise ConfigError(f"the GGUF file has a {kind!r} tokenizer; only byte-level BPE ('gpt2') is read from GGUF.")
    name = metadata.get("tokenizer.ggml.pre", "gpt-2")
    if name not in PRE_TOKENISERS:
        known = ", ".join(PRE_TOKENISERS)
        hint = nearest(str(name), PRE_TOKENISERS)
        raise ConfigError(f"the GGUF file names the pre-tokeniser {name!r}, which is not known{hint} Known: {known}.")
    return PRE_TOKENISERS[name]


def build_backend(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> Backend:
    """A `tokenizers` object that encodes as the model was trained.

    Raises:
        ConfigError: as `pre_tokeniser`.
        WeightsError: merges are missing or name tokens that the vocabulary lacks.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    rule = pre_tokeniser(metadata)
    merges = metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, StringArray):
        raise WeightsError("the GGUF file holds a vocabulary but no merges.")
    vocab = {text: token for token, text in enumerate(vocabulary.tokens) if text is not None}
    pairs = [(left, right) for left, _, right in (line.partition(" ") for line in merges.decode())]
    try:
        backend = Tokenizer(models.BPE(vocab=vocab, merges=pairs, ignore_merges=rule.whole_words))
    except Exception as error:  # the package raises plain Exception
        raise WeightsError(f"the merges of the GGUF file do not fit its vocabulary: {error}.") from error
    if rule.compose:
        backend.normalizer = normalizers.NFC()
    steps: list[pre_tokenizers.PreTokenizer] = []
    if rule.single_digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if rule.pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(rule.pattern), behavior="isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rule.pattern is None))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    for ids, special in ((vocabulary.special, True), (vocabulary.added, False)):
        texts = [vocabulary.tokens[token] for token in sorted(ids)]
        tokens = [AddedToken(text, normalized=False, special=special) for text in texts if text]
        if special:
            backend.add_special_tokens(tokens)
        else:
            backend.add_tokens(tokens)
    return backend
