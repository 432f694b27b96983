"""`/v1/responses`: the chat that says the same, its items and its events."""

from __future__ import annotations

import json

import pytest

from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.request import Delta
from saguaro.server.answers import Parsers
from saguaro.server.endpoints.responses import ResponseForm
from saguaro.server.parsers.qwen3 import Qwen3
from saguaro.server.render import Counts
from saguaro.server.translate import asked_of_response
from saguaro.server.wire import responses
from saguaro.server.wire.requests import ResponsesRequest

PATH = "/v1/responses"
BODY = {"input": "hi", "seed": 3, "max_output_tokens": 12}


def named_events(text: str) -> list[dict]:
    found = []
    for block in text.split("\n\n"):
        if block.startswith("event: "):
            name, data = block.removeprefix("event: ").split("\ndata: ")
            found.append(json.loads(data))
            assert found[-1]["type"] == name
    return found


def text_of(response: dict) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def test_a_response_is_the_chat_that_says_the_same(server):
    found = server.post(PATH, {**BODY, "instructions": "be brief", "metadata": {"a": "b"}})
    response = responses.ResponseObject.model_validate(found.json())
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    chat = server.post("/v1/chat/completions", {"messages": messages, "seed": 3, "max_tokens": 12}).json()
    assert text_of(found.json()) == chat["choices"][0]["message"]["content"]
    assert response.usage.output_tokens == chat["usage"]["completion_tokens"]
    assert response.metadata == {"a": "b"}
    complete = chat["choices"][0]["finish_reason"] == "stop"
    assert (response.status, response.incomplete_details is None) == (
        "completed" if complete else "incomplete",
        complete,
    )


def test_its_stream_builds_it(server):
    whole = server.post(PATH, BODY).json()
    found = named_events(server.post(PATH, {**BODY, "stream": True}).text)
    assert [each["sequence_number"] for each in found] == list(range(len(found)))
    kinds = [each["type"] for each in found]
    assert kinds[:4] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    ]  # fmt: skip
    assert kinds[-4:-1] == ["response.output_text.done", "response.content_part.done", "response.output_item.done"]
    last = responses.ResponseObject.model_validate(found[-1]["response"])
    assert (kinds[-1], last.status) == (f"response.{whole['status']}", whole["status"])
    deltas = "".join(each["delta"] for each in found if each["type"] == "response.output_text.delta")
    assert deltas == text_of(found[-1]["response"]) == text_of(whole)
    assert found[-1]["response"]["usage"] | {"input_tokens_details": 0} == whole["usage"] | {"input_tokens_details": 0}


def test_conversations_and_forms():
    given = {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "id": "rea_1", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
            {"role": "user", "content": "why"},
        ],
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "integer"}}},
    }  # fmt: skip
    tokenizer = ByteTokenizer(300)
    asked = asked_of_response(ResponsesRequest.model_validate(given), tokenizer, Parsers(None, None), context=200)
    assert tokenizer.decode(asked.prompts[0]) == "user: hi\nassistant: yes\nuser: why\nassistant:"
    assert asked.params.json_schema == '{"type": "integer"}'


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"tools": []}, "tools"),
        ({"truncation": "auto"}, "truncation"),
        ({"input": [{"content": "no role"}]}, "input"),
        ({"temperature": 1000}, "temperature"),
    ],
)
def test_refusals(server, extra, param):
    found = server.post(PATH, {**BODY, **extra})
    assert (found.status_code, found.json()["error"]["param"]) == (400, param)


def test_reasoning_is_an_item_of_its_own(server):
    request = ResponsesRequest(input="hi")
    asked = asked_of_response(request, ByteTokenizer(300), Parsers(None, Qwen3), context=100)
    form = ResponseForm(server.front, asked, request)
    frames = [*form.begin(1)]
    for text, finish in (("<think>\nhm", None), ("\n</think>\n\nYes", None), (".", "stop")):
        frames += form.step(0, Delta(text, [], finish))
    frames += form.end(Counts(1, 2))
    last = named_events(b"".join(frames).decode())[-1]["response"]
    responses.ResponseObject.model_validate(last)
    assert [(item["type"], item["content"][0]["text"]) for item in last["output"]] == [
        ("reasoning", "hm"),
        ("message", "Yes."),
    ]
    assert last["status"] == "completed"
