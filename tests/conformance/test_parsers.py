"""Every parser: nothing is lost, nothing comes twice, and the pieces are the same however the text was cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.server.answers import Answer
from saguaro.server.parsers import REASONING, TOOLS
from saguaro.server.parsers.base import Parser

PARSERS = [(table, name) for table in (TOOLS, REASONING) for name in table]
NAMES = ("weather", "add")
BITS = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>", "\n", " ", "<", "; ", "}", "hello",
    '{"name": "weather", "arguments": {"city": "Rome"}}', '{"name": "add", "parameters": {"a": [1, "}"], "b": {}}}',
    '{"name": "other"}', '{"name": ', '"weather"', "é",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(BITS), max_size=8).map("".join)


def read(parser: Parser, pieces: list[str]) -> Answer:
    answer = Answer()
    for text in pieces:
        for piece in parser.push(text):
            answer.add(piece)
    for piece in parser.finish():
        answer.add(piece)
    assert parser.finish() == []
    return answer


def make(table, name, **options) -> Parser:
    return table.get(name)(NAMES, **options)


@pytest.mark.parametrize(("table", "name"), PARSERS)
@given(text=TEXTS, cuts=st.lists(st.integers(1, 7), max_size=60), begun=st.booleans())
def test_cuts_do_not_matter(table, name, text, cuts, begun):
    pieces, rest = [], text
    for cut in cuts:
        pieces, rest = [*pieces, rest[:cut]], rest[cut:]
    whole, piecewise, letters = (
        read(make(table, name, begun=begun), cut) for cut in ([text], [*pieces, rest], list(text))
    )
    assert whole == piecewise == letters


@pytest.mark.parametrize(("table", "name"), PARSERS)
@given(text=st.text(st.characters(exclude_characters='<{;"', exclude_categories=["Cs"]), max_size=40))
def test_plain_text_is_content_as_it_stands(table, name, text):
    assert read(make(table, name), [text]) == Answer(content=text)


@pytest.mark.parametrize(("table", "name"), PARSERS)
def test_a_member_is_what_its_table_says(table, name):
    member = table.get(name)
    assert issubclass(member, Parser)
    assert member.mark


@pytest.mark.parametrize("name", [*TOOLS])
@given(text=TEXTS)
def test_calls_have_names_and_answers_never_more_text_than_there_was(name, text):
    answer = read(make(TOOLS, name), [text])
    assert all(function for function, _ in answer.calls)
    assert len(answer.content) + sum(len(arguments) for _, arguments in answer.calls) <= len(text) + 2 * len(
        answer.calls
    )


ARGUMENTS = [{}, {"a": 1}, {"s": 'a "quoted" } { \\ text', "l": [[], {"x": None}]}, {"é": "\n"}]


@pytest.mark.parametrize("wanted", ARGUMENTS)
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_hermes_calls(wanted, ensure_ascii):
    body = json.dumps({"name": "add", "arguments": wanted}, ensure_ascii=ensure_ascii)
    answer = read(make(TOOLS, "hermes"), list(f"Let me see.\n<tool_call>\n{body}\n</tool_call>"))
    [(function, arguments)] = answer.calls
    assert (answer.content, function, json.loads(arguments)) == ("Let me see.", "add", wanted)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ('<tool_call>{"name":"a","arguments":{}}</tool_call>\n<tool_call>{"name":"b"}</tool_call>', "", ["a", "b"]),
        ('<tool_call>{"arguments":{"x":1},"name":"a"}</tool_call> done', " done", ["a"]),  # the other order
        ('<tool_call>{"name":"a","arguments":{"x":', "", ["a"]),  # cut by max_tokens
        ('<tool_call>{"name":"a","arguments":"{}"}</tool_call>', "", ["a"]),  # encoded twice
        ("<tool_call>no JSON</tool_call>", "<tool_call>no JSON</tool_call>", []),
        ('<tool_call>{"no": "name"}</tool_call>', '<tool_call>{"no": "name"}</tool_call>', []),
        ("a < b and <tool", "a < b and <tool", []),
        ('{"name":"weather","arguments":{}}\n{"name":"add","arguments":{}}', "", ["weather", "add"]),  # without marks
        ('{"name":"other","arguments":{}}', '{"name":"other","arguments":{}}', []),  # no such function
        (' {"city": "Rome"}', ' {"city": "Rome"}', []),  # JSON as an answer
        ('See {"name":"weather","arguments":{}}', 'See {"name":"weather","arguments":{}}', []),
    ],
)
def test_hermes_texts(text, content, calls):
    answer = read(make(TOOLS, "hermes"), [text])
    assert (answer.content, [name for name, _ in answer.calls]) == (content, calls)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ('{"name": "weather", "parameters": {"city": "Rome"}}', "", [("weather", '{"city": "Rome"}')]),
        ('<|python_tag|>{"name": "add", "arguments": {}}', "", [("add", "{}")]),
        ('{"name": "add", "parameters": {}}; {"name": "weather", "parameters": {"a": 1}}', "",
         [("add", "{}"), ("weather", '{"a": 1}')]),
        ('{"name": "Bob", "parameters": {}}', '{"name": "Bob", "parameters": {}}', []),  # no such function
        ('{"name": "add", "age": 5}', '{"name": "add", "age": 5}', []),  # JSON as an answer
        ('{"type": "function", "name": "add", "parameters": null}', "", [("add", "{}")]),
        ("It is {sunny}.", "It is {sunny}.", []),
        ('{"name": "add", "parameters": {}} and more', " and more", [("add", "{}")]),
    ],
)  # fmt: skip
def test_llama_texts(text, content, calls):
    answer = read(make(TOOLS, "llama"), [text])
    assert (answer.content, answer.calls) == (content, calls)


@pytest.mark.parametrize(
    ("text", "begun", "reasoning", "content"),
    [
        ("<think>\nhm\n</think>\n\nYes.", False, "hm", "Yes."),
        ("hm\n</think>\n\nYes.", True, "hm", "Yes."),  # the prompt has opened it
        ("Yes.", False, "", "Yes."),  # thinking is off
        ("<think>\ncut", False, "cut", ""),
        ("<think>\n\n</think>\n\n", False, "", ""),
        ("a <think> b", False, "", "a <think> b"),
        ("<think>a\n\nb</think>c\n", False, "a\n\nb", "c\n"),
    ],
)
def test_qwen3_texts(text, begun, reasoning, content):
    answer = read(make(REASONING, "qwen3", begun=begun), [text])
    assert (answer.reasoning, answer.content) == (reasoning, content)
