"""How an answer is read: parsers one behind the other, and which fit a tokenizer."""

from dataclasses import dataclass

import pytest

from saguaro.errors import ConfigError
from saguaro.server.answers import Answer, AnswerReader, NamedCall, Parsers
from saguaro.server.parsers.base import Piece
from saguaro.server.parsers.hermes import Hermes
from saguaro.server.parsers.llama import Llama
from saguaro.server.parsers.qwen3 import Qwen3

TEXT = (
    '<think>\nI <tool_call> think\n</think>\n\nWell.<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n</tool_call>'
    '<tool_call>{"name": "b", "arguments": {}}</tool_call>'
)


@dataclass
class Words:
    """A tokenizer with some words that are one token."""

    words: set[str]

    def encode(self, text, *, add_special=True):
        return [0] if text in self.words else list(range(len(text)))


@pytest.mark.parametrize(
    ("words", "tools", "reasoning"),
    [
        ({"<tool_call>", "<think>"}, Hermes, Qwen3),
        ({"<tool_call>"}, Hermes, None),
        ({"<|python_tag|>"}, Llama, None),
        (set(), None, None),
    ],
)
def test_the_tokenizer_tells_the_family(words, tools, reasoning):
    assert Parsers.of(Words(words)) == Parsers(tools, reasoning)
    assert Parsers.of(Words(words), tools="none", reasoning="none") == Parsers(None, None)


def test_a_parser_by_name():
    found = Parsers.of(Words(set()), tools="llama", reasoning="saguaro.server.parsers.qwen3:Qwen3")
    assert found == Parsers(Llama, Qwen3)
    with pytest.raises(ConfigError, match="did you mean 'hermes'"):
        Parsers.of(Words(set()), tools="herms")


@pytest.mark.parametrize("cut", [1, 3, 1000])
def test_reasoning_first_then_calls(cut):
    reader = AnswerReader(Qwen3(), Hermes())
    for place in range(0, len(TEXT), cut):
        reader.push(TEXT[place : place + cut])
    reader.finish()
    assert reader.answer == Answer("Well.", "I <tool_call> think", [("a", '{"x": 1}'), ("b", "{}")])


def test_one_call_where_only_one_is_wanted():
    reader = AnswerReader(Qwen3(), Hermes(), single=True)
    assert [piece.number for piece in [*reader.push(TEXT), *reader.finish()] if piece.kind == "call"] == [0]
    assert [name for name, _ in reader.answer.calls] == ["a"]


def test_a_named_call_is_its_arguments():
    reader = AnswerReader(None, NamedCall("f"))
    assert reader.push('{"a"') == [Piece("call", "f"), Piece("arguments", '{"a"')]
    assert reader.push(":1}") == [Piece("arguments", ":1}")]
    reader.finish()
    assert reader.answer.calls == [("f", '{"a":1}')]


def test_without_parsers_everything_is_content():
    reader = AnswerReader()
    assert reader.push(TEXT) == [Piece("content", TEXT)]
    assert reader.push("") == reader.finish() == []
