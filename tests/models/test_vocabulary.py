"""Whether two vocabularies agree: the first difference is named, padding is allowed (B39)."""

import json

import pytest

from saguaro.models.tokenizer import Tokenizer
from saguaro.models.vocabulary import Signature, Vocabulary, byte_alphabet, compare, gguf_signature

PATTERN = r"\p{L}+|\p{N}|[^\p{L}\p{N}]"


@pytest.fixture(scope="module")
def keys(make_backend, gguf_keys_of):
    backend = make_backend(PATTERN)
    return lambda **options: gguf_keys_of(backend, "gpt-2", **options)


def signature(tokens):
    return Signature(repr(tokens).encode(), lambda: Vocabulary(tokens=tokens))


def test_the_first_difference_is_named_with_both_texts():
    message = compare(signature(["a", "b", "c", "d"]), signature(["a", "c", "b", "d"]))
    assert message == "the tokenizers differ: id 1 is 'b' in the target and 'c' in the draft."


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        (["a", "b"], ["a", "b", None, None]),
        (["a", "b", None], ["a", "b"]),
        (["a", "b"], ["a", "b", "<extra>"]),
        (["a", "b", None], ["a", "b", "<extra>"]),
    ],
)
def test_padding_and_tokens_behind_the_end_are_allowed(target, draft):
    assert compare(signature(target), signature(draft)) is None
    assert compare(signature(draft), signature(target)) is None


def test_a_padded_gguf_agrees_with_an_unpadded_one(keys):
    plain, padded = keys(padding=0), keys(padding=300)
    assert gguf_signature(plain).digest != gguf_signature(padded).digest
    assert compare(gguf_signature(plain), gguf_signature(padded)) is None
    assert gguf_signature(padded).digest == gguf_signature(keys(padding=300)).digest


def test_two_ids_swapped_in_a_gguf(keys):
    other = keys(padding=0)
    strings = other["tokenizer.ggml.tokens"].decode()
    strings[70], strings[71] = strings[71], strings[70]
    other["tokenizer.ggml.tokens"].raw = b"".join(len(t.encode()).to_bytes(8, "little") + t.encode() for t in strings)
    message = compare(gguf_signature(keys(padding=0)), gguf_signature(other))
    assert "id 70 is" in message
    assert repr(strings[70]) in message
    assert repr(strings[71]) in message


def test_a_gguf_agrees_with_the_directory_it_was_made_from(keys, make_backend, tmp_path):
    make_backend(PATTERN).save(str(tmp_path / "tokenizer.json"))
    directory = Tokenizer.from_directory(tmp_path)
    converted = Tokenizer.from_gguf(keys(padding=7))
    assert compare(directory.signature(), converted.signature()) is None
    described = json.loads((tmp_path / "tokenizer.json").read_text())
    vocab = described["model"]["vocab"]
    first, second = sorted(vocab, key=vocab.get)[:2]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    assert "id 0" in compare(Tokenizer.from_directory(tmp_path).signature(), converted.signature())


def test_the_byte_alphabet_is_the_one_in_use():
    from tokenizers.pre_tokenizers import ByteLevel

    assert set(byte_alphabet()) == set(ByteLevel.alphabet())
    assert sorted(byte_alphabet().values()) == list(range(256))
    assert byte_alphabet()["\u0120"] == ord(" ")
