"""The paths over a toy engine: answers, streams, refusals."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.server.conftest import Server, events, served

from saguaro.server.app import PATHS
from saguaro.server.wire import responses

HI = [{"role": "user", "content": "hi"}]
SHORT = {"max_tokens": 8, "seed": 3, "ignore_eos": True}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def streamed(server: Server, path: str, body: dict) -> list:
    found = server.post(path, {**body, "stream": True})
    assert found.headers["content-type"].startswith("text/event-stream")
    read = events(found.text)
    assert read[-1] == "[DONE]"
    return read[:-1]


def test_a_chat(server):
    found = server.post(CHAT, {"messages": HI, **SHORT, "return_metrics": True})
    assert found.status_code == 200
    answer = responses.ChatCompletion.model_validate(found.json())
    [choice] = answer.choices
    assert (choice.finish_reason, choice.message.role, answer.model) == ("length", "assistant", "toy")
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8
    assert choice.metrics["rounds"] + choice.metrics["accepted"] + 1 == 8


def test_a_chat_stream_says_the_same_in_pieces(server):
    body = {"messages": HI, **SHORT, "n": 2, "logprobs": True, "top_logprobs": 2}
    whole = server.post(CHAT, body).json()
    chunks = streamed(server, CHAT, {**body, "stream_options": {"include_usage": True}})
    for chunk in chunks:
        responses.ChatChunk.model_validate(chunk)
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert [chunk["choices"][0]["index"] for chunk in chunks[:2]] == [0, 1]
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert (chunks[-1]["choices"], chunks[-1]["usage"]) == ([], whole["usage"])
    for index, wanted in enumerate(whole["choices"]):
        own = [each for chunk in chunks for each in chunk["choices"] if each["index"] == index]
        assert [each["delta"].get("role") for each in own] == ["assistant"] + [None] * (len(own) - 1)
        assert "".join(each["delta"].get("content", "") for each in own) == wanted["message"]["content"]
        assert [each["finish_reason"] for each in own] == [None] * (len(own) - 1) + [wanted["finish_reason"]]
        assert own[-1]["delta"] == {}
        entries = [entry for each in own for entry in (each["logprobs"] or {"content": []})["content"]]
        assert entries == wanted["logprobs"]["content"]
        assert len(entries) == 8
        assert all(len(entry["top_logprobs"]) == 2 for entry in entries)


def test_completions_of_several_prompts(server):
    body = {"prompt": ["ab", "c"], "n": 2, **SHORT, "logprobs": 1}
    whole = server.post(TEXT, body).json()
    responses.TextCompletion.model_validate(whole)
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2, 3]
    assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (3, 32)
    chunks = streamed(server, TEXT, body)
    assert all("usage" not in chunk for chunk in chunks)
    for index, wanted in enumerate(whole["choices"]):
        own = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert "".join(each["text"] for each in own) == wanted["text"]
        assert [each["finish_reason"] for each in own if each["finish_reason"]] == ["length"]
        joined = {key: [x for each in own for x in each["logprobs"][key]] for key in wanted["logprobs"]}
        assert joined == wanted["logprobs"]
    assert len({choice["text"] for choice in whole["choices"]}) == 4


def test_text_logprobs_lie_where_the_text_is(server):
    [choice] = server.post(TEXT, {"prompt": "ab", **SHORT, "logprobs": 0, "echo": True}).json()["choices"]
    lists = choice["logprobs"]
    assert choice["text"].startswith("ab")
    assert [len(value) for value in lists.values()] == [10] * 4
    assert (lists["token_logprobs"][0], lists["top_logprobs"][0]) == (None, None)
    for token, offset in zip(lists["tokens"], lists["text_offset"], strict=True):
        assert token.startswith("bytes:") or choice["text"][offset : offset + len(token)] == token


def test_scoring_a_prompt(server):
    body = {"prompt": "abc", "echo": True, "max_tokens": 0, "logprobs": 1}
    first, second = (server.post(TEXT, body).json() for _ in range(2))
    [choice] = first["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "length")
    assert len(choice["logprobs"]["tokens"]) == 3
    assert first["usage"]["completion_tokens"] == 0
    assert second["choices"] == first["choices"]  # also when the prompt is known already


def test_echo_streamed(server):
    body = {"prompt": "abc", "echo": True, **SHORT}
    chunks = streamed(server, TEXT, body)
    assert chunks[0]["choices"][0]["text"] == "abc"
    text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
    assert text == server.post(TEXT, body).json()["choices"][0]["text"]


def test_structured_output(server):
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    found = server.post(CHAT, {"messages": HI, "response_format": form, "seed": 1}).json()["choices"][0]
    assert json.loads(found["message"]["content"])["a"] in (1, 2)
    assert found["finish_reason"] == "stop"


TOOL = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False,
}}}  # fmt: skip


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "add"}}])
def test_a_demanded_call(server, choice):
    body = {"messages": HI, "tools": [TOOL], "tool_choice": choice, "seed": 1}
    [whole] = server.post(CHAT, body).json()["choices"]
    responses.AnswerMessage.model_validate(whole["message"])
    [call] = whole["message"]["tool_calls"]
    assert (whole["finish_reason"], whole["message"]["content"], call["function"]["name"]) == (
        "tool_calls",
        None,
        "add",
    )
    assert json.loads(call["function"]["arguments"])["a"] in (1, 2)
    chunks = streamed(server, CHAT, body)
    deltas = [each for chunk in chunks for each in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert [delta.get("id") is not None for delta in deltas] == [True] + [False] * (len(deltas) - 1)
    assert deltas[0]["function"] == {"name": "add", "arguments": ""}
    assert "".join(delta["function"]["arguments"] for delta in deltas) == call["function"]["arguments"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_models_and_tokens(server):
    listed = responses.ModelList.model_validate(server.get("/v1/models").json())
    assert [model.id for model in listed.data] == ["toy", "alias"]
    assert server.get("/v1/models/alias").json()["max_model_len"] == 256
    assert server.get("/v1/models/other/one").status_code == 404
    found = server.post("/tokenize", {"prompt": "hé", "return_token_strs": True}).json()
    assert (found["tokens"], found["count"]) == ([0x68, 0xC3, 0xA9], 3)
    assert server.post("/detokenize", {"tokens": found["tokens"]}).json() == {"prompt": "hé"}
    chat = server.post("/tokenize", {"messages": HI}).json()
    assert server.post("/detokenize", {"tokens": chat["tokens"]}).json()["prompt"] == "user: hi\nassistant:"
    assert server.post("/tokenize", {}).json()["error"]["message"] == "give either prompt or messages."


def test_null_keys_and_an_alias(server):
    body = {
        "model": "alias",
        "messages": [{"role": "user", "content": "hi", "tool_calls": None}],
        **SHORT,
        "stop": None,
    }
    assert server.post(CHAT, body).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "param", "words"),
    [
        (CHAT, {"messages": HI, "temprature": 1}, 400, "temprature", "did you mean 'temperature'"),
        (CHAT, {"messages": HI, "temperature": -1}, 400, "temperature", "temperature must be"),
        (CHAT, {"messages": []}, 400, None, "at least one message"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, None, "image_url"),
        (CHAT, {"messages": HI, "model": "gpt"}, 404, "model", "served: 'toy', 'alias'"),
        (CHAT, {"messages": HI, "n": 1000}, 400, None, "choices at once"),
        (TEXT, {"prompt": ["ok", "x" * 300]}, 400, None, "300 tokens"),
        (TEXT, {"prompt": [1, 9999]}, 400, None, "outside"),
        (TEXT, {"prompt": ""}, 400, None, "empty"),
        (TEXT, {"prompt": "a", "response_format": {"type": "json_object"}, "regex": "a"}, 400, None, "one grammar"),
        (TEXT, {"prompt": "a", "regex": "("}, 400, None, "grammar"),
        ("/v1/chat/completion", {}, 404, None, "did you mean '/v1/chat/completions'"),
        ("/health", {}, 405, None, "does not take POST"),
    ],
)
def test_refusals(server, path, body, status, param, words):
    for extra in ({}, {"stream": True}):
        found = server.post(path, {**body, **extra})
        assert found.status_code == status
        error = responses.ErrorBody.model_validate(found.json()).error
        assert words in error.message
        assert error.param == param
        assert found.headers["x-request-id"]
    assert server.front.gate.inside == 0


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'"a"', b"\xff", b"", b"[" * 5000, b'{"prompt": "a"} x', b'{"prompt": NaN}']
)
def test_bad_bodies_are_400(server, content):
    found = server.post(TEXT, content=content, headers={"content-type": "application/json"})
    assert found.status_code == 400
    responses.ErrorBody.model_validate(found.json())


@pytest.mark.parametrize("field", ["model", "stop", "bad_words", "regex", "grammar", "user", "nonsense", "prompt"])
def test_half_a_character_is_400(server, field):
    body = json.dumps({"prompt": "a", field: "\ud800"}).encode()
    for path in (TEXT, "/tokenize"):
        found = server.post(path, content=body, headers={"content-type": "application/json"})
        assert found.status_code in (400, 404)
        responses.ErrorBody.model_validate(found.json())


def test_a_grammar_without_an_end_is_the_requests_fault(server):
    form = {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}
    found = server.post(TEXT, {"prompt": "a", "response_format": form})
    assert (found.status_code, "too much work" in found.json()["error"]["message"]) == (400, True)


def test_a_form_is_no_json(server):
    found = server.post(TEXT, content=b'{"prompt": "a"}', headers={"content-type": "text/plain"})
    assert (found.status_code, "Content-Type" in found.json()["error"]["message"]) == (400, True)


def test_many_at_once_and_a_full_queue(llm):
    server = served(llm, max_queue=1)  # 8 run, 1 waits

    async def scene(client):
        calls = [client.post(TEXT, json={"prompt": "a", **SHORT, "seed": seed}) for seed in range(12)]
        return await asyncio.gather(*calls)

    found = server.run(scene)
    refused = [each for each in found if each.status_code == 429]
    assert [each.status_code for each in found].count(200) == 9
    assert len(refused) == 3
    assert all(int(each.headers["retry-after"]) >= 1 for each in refused)
    assert server.front.gate.inside == 0


def test_a_request_that_takes_too_long(llm):
    server = served(llm, request_seconds=0.001)
    found = server.post(TEXT, {"prompt": "a", "max_tokens": 200, "ignore_eos": True})
    assert (found.status_code, found.headers["x-should-retry"]) == (408, "false")
    assert idle(server)


def idle(server: Server) -> bool:
    """Whether nothing runs in the engine any more."""

    async def scene(client):
        for _ in range(1000):
            found = await server.front.llm.statistics()
            if not found["running"] and not found["waiting"]:
                return not server.front.calls and server.front.gate.inside == 0
            await asyncio.sleep(0.01)
        return False

    return server.run(scene)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_request(server, stream):
    """Over plain ASGI: the client leaves after three pieces, or at once where nothing is streamed."""
    body = json.dumps({"prompt": "a", "max_tokens": 240, "ignore_eos": True, "stream": stream}).encode()
    headers = [(b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": TEXT, "raw_path": TEXT.encode(), "query_string": b"", "root_path": "",
        "headers": headers, "http_version": "1.1", "scheme": "http", "server": ("test", 80), "asgi": {"version": "3.0"},
    }  # fmt: skip
    sent = []

    async def scene(client):
        left, messages = asyncio.Event(), [{"type": "http.request", "body": body}]

        async def receive():
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)
            if len(sent) == 4:
                left.set()

        if not stream:
            asyncio.get_running_loop().call_later(0.05, left.set)
        await server.app(scope, receive, send)

    server.run(scene)
    assert len(sent) <= 8
    assert idle(server)
    page = server.get("/metrics").text
    assert 'saguaro:request_success_total{finished_reason="abort"} 1.0' in page
    assert 'status="499"' in page or stream


def test_health_and_metrics(server):
    before = server.post(CHAT, {"messages": HI, **SHORT}).json()["usage"]
    report = responses.HealthReport.model_validate(server.get("/health").json())
    assert (report.status, report.mode) == ("alive", "ssd")
    found = server.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert f"saguaro:generation_tokens_total {before['completion_tokens']}.0" in found.text
    assert f"saguaro:prompt_tokens_total {before['prompt_tokens']}.0" in found.text


def test_the_schema_is_served_and_true(server):
    schema = server.get("/openapi.json").json()
    assert {*PATHS} - {"/openapi.json"} <= {*schema["paths"]}
    assert set(schema["paths"]) == {
        CHAT, TEXT, "/v1/responses", "/v1/models",
        "/v1/models/{name}", "/tokenize", "/detokenize", "/health", "/state", "/metrics", "/", "/page/{name}",
    }  # fmt: skip
    chat = schema["components"]["schemas"]["ChatRequest"]
    assert chat["additionalProperties"] is False
    assert chat["required"] == ["messages"]
    assert server.get("/docs").status_code == 404


def test_nothing_is_taken_while_the_server_stops(llm):
    server = served(llm)
    server.front.closing = True
    found = server.post(TEXT, {"prompt": "a"})
    assert (found.status_code, found.headers["retry-after"]) == (503, "5")
    health = server.get("/health")
    assert (health.status_code, health.json()["status"]) == (503, "stopping")
