"""Tokenizers built from GGUF vocabularies encode as the tokenizers they were converted from (model-facts 3.3, 7.6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.errors import ConfigError, WeightsError
from saguaro.models.gguf_tokenizer import PRE_TOKENISERS
from saguaro.models.tokenizer import Tokenizer

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
RULES = {
    "llama-bpe": {"pattern": WORDS.replace("DIGITS", "{1,3}"), "whole_words": True},
    "qwen2": {"pattern": WORDS.replace("DIGITS", ""), "compose": True},
    "smollm": {"pattern": None, "digits": True},
    "gpt-2": {"pattern": None},
}


@pytest.fixture(scope="module")
def pairs(make_backend, gguf_keys_of):
    backends = {name: make_backend(**rule) for name, rule in RULES.items()}
    return {name: (backend, Tokenizer.from_gguf(gguf_keys_of(backend, name))) for name, backend in backends.items()}


@pytest.mark.parametrize("name", RULES)
def test_encodes_like_the_original(name, pairs, corpus):
    backend, tokenizer = pairs[name]
    for text in [*corpus, "I'LL we'll 1234567 x2y ", "<|eot_id|>a<tool_call>{}", "é ≠ é", "\n\n \n a", ""]:
        expected = backend.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text, add_special=False) == expected, text


@given(st.text(max_size=30))
def test_any_text_comes_back(pairs, text):
    for name, (backend, tokenizer) in pairs.items():
        ids = tokenizer.encode(text, add_special=False)
        assert ids == backend.encode(text, add_special_tokens=False).ids
        if not RULES[name].get("compose"):
            assert tokenizer.decode(ids, skip_special=False) == text


def test_the_rules_differ_where_they_should(pairs):
    numbers = {name: len(tokenizer.encode("2026")) for name, (_, tokenizer) in pairs.items()}
    assert numbers["qwen2"] == numbers["smollm"] == 4, "every digit alone"
    upper = {name: tokenizer.encode("they'RE") for name, (_, tokenizer) in pairs.items()}
    assert pairs["llama-bpe"][1].decode(upper["llama-bpe"]) == "they'RE"


def test_fillers_never_match_and_mean_nothing(pairs, gguf_keys_of):
    for backend, tokenizer in pairs.values():
        size = backend.get_vocab_size()
        assert size not in tokenizer.encode(f"[PAD{size}]")
        assert tokenizer.token_bytes(size) == b""
        assert tokenizer.vocab_size == size
        assert tokenizer.token_bytes(10**6) == b""


def test_special_tokens_are_matched_whole_and_left_out_of_text(pairs):
    _, tokenizer = pairs["qwen2"]
    ids = tokenizer.encode("a<|eot_id|><tool_call>b")
    assert tokenizer.decode(ids) == "a<tool_call>b", "user-defined tokens stay"
    assert tokenizer.decode(ids, skip_special=False) == "a<|eot_id|><tool_call>b"


def test_stop_ids_come_from_texts_too(pairs):
    backend, tokenizer = pairs["llama-bpe"]
    assert tokenizer.stop_ids == {backend.token_to_id("<|pad|>"), backend.token_to_id("<|eot_id|>")}


def test_the_beginning_is_added_as_the_name_says_unless_the_file_does(make_backend, gguf_keys_of):
    backend = make_backend(**RULES["llama-bpe"])
    begin = backend.token_to_id("<|begin|>")
    silent = Tokenizer.from_gguf(gguf_keys_of(backend, "llama-bpe"))
    assert silent.encode("ab")[0] == begin
    assert silent.encode("<|begin|>ab").count(begin) == 1, "text that starts with it gets no second one"
    told = Tokenizer.from_gguf(gguf_keys_of(backend, "llama-bpe", **{"tokenizer.ggml.add_bos_token": False}))
    assert begin not in told.encode("ab")
    assert begin not in Tokenizer.from_gguf(gguf_keys_of(backend, "qwen2")).encode("ab")


def test_whole_words_are_taken_without_merging(make_backend, gguf_keys_of):
    """`ignore_merges`: a piece that is a token is taken as it is, although its merges would lead elsewhere."""
    backend = make_backend(**RULES["llama-bpe"])
    keys = gguf_keys_of(backend, "llama-bpe", padding=0)
    odd = "zqxj"
    keys["tokenizer.ggml.tokens"].raw += len(odd).to_bytes(8, "little") + odd.encode()
    keys["tokenizer.ggml.tokens"]._count += 1
    keys["tokenizer.ggml.token_type"].append(1)
    token = backend.get_vocab_size()
    assert Tokenizer.from_gguf(keys).encode(odd, add_special=False) == [token]
    assert len(Tokenizer.from_gguf(keys | {"tokenizer.ggml.pre": "qwen2"}).encode(odd)) == 4


@pytest.mark.parametrize(
    ("changes", "error", "word"),
    [
        ({"tokenizer.ggml.pre": "lama-bpe"}, ConfigError, "did you mean 'llama-bpe'"),
        ({"tokenizer.ggml.model": "llama"}, ConfigError, "'llama' tokenizer"),
        ({"tokenizer.ggml.merges": None}, WeightsError, "no merges"),
        ({"tokenizer.ggml.tokens": None}, WeightsError, "no tokenizer vocabulary"),
        ({"tokenizer.ggml.token_type": [1, 1]}, WeightsError, "types 2 tokens"),
    ],
)
def test_refusals(changes, error, word, make_backend, gguf_keys_of):
    keys = gguf_keys_of(make_backend(**RULES["gpt-2"]), "gpt-2") | changes
    with pytest.raises(error, match=word):
        Tokenizer.from_gguf(keys)


def test_merges_that_do_not_fit_are_refused(make_backend, gguf_keys_of):
    keys = gguf_keys_of(make_backend(**RULES["gpt-2"]), "gpt-2")
    keys["tokenizer.ggml.merges"].raw += (7).to_bytes(8, "little") + b"abc xyz"
    keys["tokenizer.ggml.merges"]._count += 1
    with pytest.raises(WeightsError, match="do not fit"):
        Tokenizer.from_gguf(keys)


def test_every_rule_is_tested():
    assert {rule for name, rule in PRE_TOKENISERS.items() if name in RULES} == set(PRE_TOKENISERS.values())
