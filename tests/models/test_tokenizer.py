"""Tokenizers from `tokenizer.json`: the beginning once, nothing cleaned up, both spellings of words (B71)."""

import json

import pytest

from saguaro.errors import ConfigError, RequestRefused, WeightsError
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.text import Detokeniser
from saguaro.models.tokenizer import Tokenizer

PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message.role }}>{{ message.content }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture
def save(tmp_path, make_backend):
    """Write a tokenizer directory; returns it."""

    def write(*, settings=None, bos=True, **rule):
        make_backend(PATTERN, bos=bos, **rule).save(str(tmp_path / "tokenizer.json"))
        defaults = {"bos_token": "<|begin|>", "eos_token": {"content": "<|eot_id|>"}, "chat_template": TEMPLATE}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(defaults | (settings or {})))
        return tmp_path

    return write


def test_raw_text_gets_the_beginning_once(save):
    tokenizer = Tokenizer.from_directory(save())
    begin = tokenizer.bos_id
    assert tokenizer.encode("abc")[0] == begin
    assert tokenizer.encode("<|begin|>abc") == tokenizer.encode("abc")
    assert begin not in tokenizer.encode("abc", add_special=False)


def test_a_rendered_chat_has_one_beginning(save):
    tokenizer = Tokenizer.from_directory(save())
    messages = [{"role": "user", "content": "abc"}]
    ids = tokenizer.encode_chat(messages)
    assert tokenizer.apply_chat_template(messages) == "<|begin|><user>abc<|eot_id|><assistant>"
    assert (ids.count(tokenizer.bos_id), ids[0]) == (1, tokenizer.bos_id)
    templated = tokenizer.encode(tokenizer.apply_chat_template(messages))
    assert templated == ids, "a templated string given as a plain prompt is the same"


@pytest.mark.parametrize(("told", "expected"), [(None, False), (False, False), (True, True)])
def test_settings_decide_when_the_file_is_silent(save, told, expected):
    settings = {} if told is None else {"add_bos_token": told}
    tokenizer = Tokenizer.from_directory(save(bos=False, settings=settings))
    assert (tokenizer.encode("abc")[:1] == [tokenizer.bos_id]) is expected


def test_a_named_beginning_that_is_never_taken(save):
    """Qwen and SmolLM2 name one and take none."""
    tokenizer = Tokenizer.from_directory(save(settings={"add_bos_token": False}))
    assert tokenizer.bos_text == "<|begin|>"
    assert tokenizer.bos_id not in tokenizer.encode("abc")


def test_decoding_cleans_nothing_up(save):
    tokenizer = Tokenizer.from_directory(save(settings={"clean_up_tokenization_spaces": True}))
    text = "Hello , world ! It 's 'd n't \n done ."
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_bytes_agree_with_the_package_s_own_decoder(save, corpus):
    directory = save()
    from tokenizers import Tokenizer as Backend

    backend, tokenizer = Backend.from_file(str(directory / "tokenizer.json")), Tokenizer.from_directory(directory)
    for text in corpus:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == backend.decode(ids, skip_special_tokens=True)
        for cut in range(len(ids)):  # also where a character is cut in half
            assert tokenizer.decode(ids[:cut]) == backend.decode(ids[:cut], skip_special_tokens=True)


def test_a_stream_equals_the_whole(save, corpus):
    tokenizer = Tokenizer.from_directory(save())
    ids = tokenizer.encode("".join(corpus))
    stream = Detokeniser(tokenizer)
    assert "".join([stream.push([token]) for token in ids] + [stream.finish()]) == tokenizer.decode(ids)


def test_stop_and_special_ids(save):
    tokenizer = Tokenizer.from_directory(save(settings={"eos_token": "<|pad|>"}))
    texts = {tokenizer.decode([token], skip_special=False) for token in tokenizer.stop_ids}
    assert texts == {"<|pad|>", "<|eot_id|>"}
    assert tokenizer.eos_text == "<|pad|>"
    assert {tokenizer.decode([token]) for token in tokenizer.special_ids} == {""}


def test_words_with_marks_and_bytes(tmp_path):
    """Llama 2's kind: `▁` is a space, characters outside the vocabulary are spelled in bytes."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers

    texts = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{value:02X}>" for value in range(256)),
        "\u2581",
        "H",
        "i",
        "\u2581H",
        "\u2581Hi",
    ]
    vocab = {text: token for token, text in enumerate(texts)}
    merges = [("\u2581", "H"), ("\u2581H", "i")]
    backend = Backend(models.BPE(vocab=vocab, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true}')
    tokenizer = Tokenizer.from_directory(tmp_path)
    ids = tokenizer.encode("Hi Hi é")
    assert ids[0] == 1
    assert tokenizer.decode(ids) == "Hi Hi é" == backend.decode(ids)
    stream = Detokeniser(tokenizer)
    pieces = [stream.push([token]) for token in ids]
    assert "".join(pieces) == " Hi Hi é", "what follows a prompt keeps its space"
    assert 2 in tokenizer.stop_ids


def test_half_a_surrogate_pair_is_no_text(save):
    for tokenizer in (Tokenizer.from_directory(save()), ByteTokenizer(512)):
        with pytest.raises(RequestRefused, match="not valid Unicode at character 2"):
            tokenizer.encode("ab\ud83c")


def test_damage_is_named(save, tmp_path):
    directory = save()
    (directory / "tokenizer.json").write_text("{")
    with pytest.raises(WeightsError, match=r"tokenizer\.json"):
        Tokenizer.from_directory(directory)
    (directory / "tokenizer.json").unlink()
    with pytest.raises(WeightsError, match=r"no tokenizer\.json"):
        Tokenizer.from_directory(directory)


def test_no_template_is_one_sentence(save):
    tokenizer = Tokenizer.from_directory(save(settings={"chat_template": None}))
    with pytest.raises(ConfigError, match="no chat template"):
        tokenizer.encode_chat([{"role": "user", "content": "abc"}])


def test_named_templates_and_template_files(save):
    listed = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    directory = save(settings={"chat_template": listed})
    messages = [{"role": "user", "content": "abc"}]
    tokenizer = Tokenizer.from_directory(directory)
    assert tokenizer.apply_chat_template(messages) == "D"
    assert tokenizer.apply_chat_template(messages, tools=[{"name": "f"}]) == "T"
    (directory / "chat_template.jinja").write_text("F")
    assert Tokenizer.from_directory(directory).apply_chat_template(messages) == "F"
