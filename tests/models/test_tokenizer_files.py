"""Tokenizers written into a directory are read back as the same: from a GGUF's vocabulary, and as copies of files."""

import pytest
from tests.models.test_gguf_tokenizer import RULES

from saguaro.models.tokenizer import Tokenizer
from saguaro.models.tokenizer_files import copy_files
from saguaro.models.vocabulary import compare, directory_signature, directory_stop_ids, gguf_signature

TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"


@pytest.mark.parametrize("name", RULES)
def test_a_gguf_vocabulary_as_files(name, make_backend, gguf_keys_of, corpus, tmp_path):
    keys = gguf_keys_of(make_backend(**RULES[name]), name)
    keys |= {"tokenizer.chat_template": TEMPLATE, "tokenizer.chat_template.tool_use": "tools: " + TEMPLATE}
    original = Tokenizer.from_gguf(keys)
    original.save(tmp_path)
    copied = tmp_path / "copy"
    copied.mkdir()
    copy_files(tmp_path, copied)
    for directory in (tmp_path, copied):
        assert compare(gguf_signature(keys), directory_signature(directory)) is None
        assert directory_stop_ids(directory) == original.stop_ids
        found = Tokenizer.from_directory(directory)
        for text in [*corpus, "1234567 x2y ", "<|eot_id|>a<tool_call>{}"]:
            assert found.encode(text) == original.encode(text)
            assert found.decode(found.encode(text)) == original.decode(original.encode(text))
        assert (found.adds_bos, found.bos_text, found.eos_text) == (
            original.adds_bos, original.bos_text, original.eos_text,
        )  # fmt: skip
        messages = [{"role": "user", "content": "hi"}]
        for options in ({}, {"tools": [{"name": "f"}]}):
            assert found.apply_chat_template(messages, **options) == original.apply_chat_template(messages, **options)
