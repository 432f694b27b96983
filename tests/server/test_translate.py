"""A request becomes prompts and parameters; what contradicts itself is refused."""

import json

import pytest

from saguaro.errors import RequestRefused
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.server.answers import AnswerReader, NamedCall, Parsers
from saguaro.server.errors import ApiError
from saguaro.server.parsers.hermes import Hermes
from saguaro.server.parsers.llama import Llama
from saguaro.server.parsers.qwen3 import Qwen3
from saguaro.server.translate import asked_of_chat, asked_of_completion, num_choices
from saguaro.server.wire.requests import ChatRequest, CompletionRequest

TOKENIZER = ByteTokenizer(300)
NO_PARSERS, QWEN = Parsers(None, None), Parsers(Hermes, Qwen3)
HI = [{"role": "user", "content": "hi"}]
TOOL = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
OTHER = {"type": "function", "function": {"name": "now"}}


def chat(parsers=NO_PARSERS, **fields):
    return asked_of_chat(ChatRequest.model_validate({"messages": HI, **fields}), TOKENIZER, parsers, context=100)


def text(prompt="ab", **fields):
    return asked_of_completion(CompletionRequest.model_validate({"prompt": prompt, **fields}), TOKENIZER)


def test_defaults():
    prompt = TOKENIZER.encode_chat(HI)
    asked = chat()
    assert asked.prompts == [prompt]
    assert (asked.params.max_tokens, asked.params.temperature) == (100 - len(prompt), 1.0)
    assert text().params.max_tokens == 16


def test_fields_arrive():
    fields = {
        "temperature": 0.5, "top_p": 0.9, "n": 2, "seed": 7, "stop": ["x"], "frequency_penalty": 1,
        "presence_penalty": -1,
        "logit_bias": {"5": 2}, "top_k": -1, "min_p": 0.1, "repetition_penalty": 1.1, "min_tokens": 1, "bad_words": "w",
        "stop_token_ids": [9], "ignore_eos": True, "skip_special_tokens": False, "speculation": 0, "max_tokens": 3,
    }  # fmt: skip
    for params in (chat(**fields).params, text(**fields).params):
        assert (params.temperature, params.top_p, params.n, params.seed, params.max_tokens) == (0.5, 0.9, 2, 7, 3)
        assert (params.stop, params.bad_words, params.logit_bias, params.stop_token_ids) == (
            ("x",),
            ("w",),
            ((5, 2.0),),
            (9,),
        )
        assert (params.frequency_penalty, params.presence_penalty, params.repetition_penalty) == (1, -1, 1.1)
        assert (params.top_k, params.min_p, params.min_tokens, params.speculation) == (0, 0.1, 1, 0)
        assert (params.ignore_eos, params.skip_special_tokens) == (True, False)


def test_the_newer_name_of_max_tokens_wins():
    assert chat(max_tokens=3, max_completion_tokens=5).params.max_tokens == 5
    with pytest.raises(RequestRefused, match="max_tokens"):
        chat(max_tokens=0)


def test_logprobs():
    assert chat().params.logprobs is None
    assert chat(logprobs=True).params.logprobs == 0
    assert chat(logprobs=True, top_logprobs=3).params.logprobs == 3
    assert text(logprobs=2).params.logprobs == 2


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL]}, "tools"),  # no parser reads this model's calls
        ({"tools": [TOOL, TOOL], "tool_choice": "required"}, "tools"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "sub"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "required", "response_format": {"type": "json_object"}}, "tools"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
    ],
)
def test_contradictions(fields, param):
    with pytest.raises(ApiError) as caught:
        chat(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"type": "text"}, (None, False)),
        ({"type": "json_object"}, (None, True)),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "integer"}}},
            ('{"type": "integer"}', False),
        ),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, ("true", False)),
    ],
)
def test_forms_of_the_output(form, expected):
    for params in (chat(response_format=form).params, text(response_format=form).params):
        assert (params.json_schema, params.json_object) == expected


def test_tools_are_rendered_and_read():
    seen = []

    class Spy(ByteTokenizer):
        def encode_chat(self, messages, **options):
            seen.append(options.get("tools"))
            return super().encode_chat(messages, **options)

    for choice, told in (("auto", ["add"]), ("none", None)):
        request = ChatRequest.model_validate({"messages": HI, "tools": [TOOL], "tool_choice": choice})
        asked = asked_of_chat(request, Spy(300), QWEN, context=100)
        assert (seen[-1] and [tool["function"]["name"] for tool in seen[-1]]) == told
        reader = asked.reader()
        reader.push('<tool_call>{"name": "add", "arguments": {}}</tool_call>')
        assert len(reader.answer.calls) == (choice == "auto")


def test_a_demanded_call_is_held_to_its_schema():
    one = chat(tools=[TOOL, OTHER], tool_choice={"type": "function", "function": {"name": "add"}})
    assert json.loads(one.params.json_schema) == {**TOOL["function"]["parameters"], "additionalProperties": False}
    assert isinstance(one.reader()._tools, NamedCall)
    any_ = chat(tools=[TOOL, OTHER], tool_choice="required")
    schemas = json.loads(any_.params.json_schema)["anyOf"]
    assert [each["properties"]["name"]["const"] for each in schemas] == ["add", "now"]
    assert isinstance(any_.reader()._tools, Llama)


def test_reasoning_is_split_where_the_model_reasons():
    assert isinstance(chat(QWEN).reader()._reasoning, Qwen3)
    assert chat(QWEN).reasons
    assert chat(QWEN, response_format={"type": "json_object"}).reader()._reasoning is None
    opened = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "<think>"}]
    asked = chat(QWEN, messages=opened, chat_template_kwargs={})
    assert asked.reader()._reasoning.begun is False  # the template goes on behind it


def test_prompts():
    assert text(["a", "bc"]).prompts == [[97], [98, 99]]
    assert text([1, 2]).prompts == [[1, 2]]
    assert text([[1], [2, 3]]).prompts == [[1], [2, 3]]
    with pytest.raises(ApiError, match="prompt is empty"):
        text([])


def test_echo():
    assert text(["a", "b"], echo=True).echoes == ["a", "b"]
    assert text([104, 105], echo=True).echoes == ["hi"]
    assert text(echo=True, logprobs=1).params.prompt_logprobs == 1
    scored = text(echo=True, max_tokens=0)
    assert (scored.scores_only, scored.params.max_tokens) == (True, 1)
    with pytest.raises(RequestRefused, match="max_tokens"):
        text(max_tokens=0)
    with pytest.raises(ApiError, match="cannot be streamed"):
        text(echo=True, logprobs=1, stream=True)


@pytest.mark.parametrize(
    ("prompt", "n", "count"), [("ab", 3, 3), (["a", "b"], 2, 4), ([1, 2], None, 1), ([[1], [2]], None, 2)]
)
def test_choices_are_counted_before_anything_is_encoded(prompt, n, count):
    assert num_choices(CompletionRequest(prompt=prompt, n=n)) == count


def test_a_reader_without_parsers():
    assert isinstance(text().reader(), AnswerReader)
