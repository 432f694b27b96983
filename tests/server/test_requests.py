"""Fields of requests: one table, docs that are made from it, and refusals that name the field."""

import pytest
from pydantic import ValidationError

from saguaro.request import SamplingParams
from saguaro.server.errors import of_validation
from saguaro.server.translate import SAME_NAME
from saguaro.server.wire.requests import INERT, REFUSED, ChatRequest, CompletionRequest, Generation, TokenizeRequest
from saguaro.server.wire.table import BLOCK, fill

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
TEXT = {"prompt": "hi"}


def refusal(model, body):
    """What the server says of a body."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(body)
    errors = [{**error, "loc": ("body", *error["loc"])} for error in caught.value.errors()]
    return of_validation(errors, model.model_fields)


def test_the_page_is_made_from_the_table(root):
    text = (root / "docs/api.md").read_text("utf-8")
    assert BLOCK.search(text)
    assert fill(text) == text, "run scripts/api_table.py"


@pytest.mark.parametrize("model", [ChatRequest, CompletionRequest, TokenizeRequest])
def test_every_field_says_what_it_does(model):
    assert all(field.description or name == "model" for name, field in model.model_fields.items())
    assert not REFUSED.keys() & model.model_fields.keys()


def test_every_way_to_sample_can_be_asked_for():
    asked = {*SAME_NAME, "top_k", "max_tokens", "logprobs", "prompt_logprobs", "json_schema", "json_object"}
    assert asked == set(SamplingParams.__dataclass_fields__)
    assert set(SAME_NAME) <= Generation.model_fields.keys()


def test_fields_without_effect_are_never_read(root):
    inert = [
        name for model in (ChatRequest, CompletionRequest) for name, field in model.model_fields.items()
        if field.json_schema_extra == INERT
    ]  # fmt: skip
    assert "user" in inert
    sources = [path.read_text() for path in (root / "src/saguaro/server").glob("*.py")]
    assert not [name for name in inert for text in sources if f"request.{name}" in text]


@pytest.mark.parametrize("base", [(ChatRequest, CHAT), (CompletionRequest, TEXT)])
def test_null_counts_as_absent(base):
    model, body = base
    nulls = {name: None for name, field in model.model_fields.items() if not field.is_required()}
    assert model.model_validate({**body, **nulls}) == model.model_validate(body)


@pytest.mark.parametrize(
    ("model", "extra", "param", "message"),
    [
        (ChatRequest, {"temprature": 1}, "temprature", "did you mean 'temperature'?"),
        (ChatRequest, {"functions": []}, "functions", "'functions' is not supported: use 'tools'"),
        (ChatRequest, {"temperature": "1"}, "temperature", "valid number"),
        (ChatRequest, {"n": 1.5}, "n", "valid integer"),
        (ChatRequest, {"stop": 3}, "stop", "stop: input should be a valid string or input should be a valid list"),
        (ChatRequest, {"stream_options": {"usage": True}}, "stream_options", "'stream_options.usage'"),
        (ChatRequest, {"messages": "hi"}, "messages", "valid list"),
        (ChatRequest, {"messages": [{"content": "hi"}]}, "messages", "messages.0.role is missing"),
        (ChatRequest, {"response_format": {"type": "xml"}}, "response_format", "json_object"),
        (ChatRequest, {"tools": [{"type": "retrieval"}]}, "tools", "function"),
        (ChatRequest, {"tool_choice": "any"}, "tool_choice", "required"),
        (CompletionRequest, {"prompt": None}, "prompt", "valid string"),
        (CompletionRequest, {"logprobs": True}, "logprobs", "valid integer"),
        (CompletionRequest, {"suffix": "x"}, "suffix", "complete at the end only"),
        (CompletionRequest, {"best_of": 3}, "best_of", "should be 1"),
        (CompletionRequest, {"messages": []}, "messages", "unknown field 'messages'"),
    ],
)
def test_refusals_name_the_field(model, extra, param, message):
    error = refusal(model, {**(CHAT if model is ChatRequest else TEXT), **extra})
    assert (error.status, error.param) == (400, param)
    assert message in error.message
    assert error.message.endswith((".", "?"))


def test_a_missing_field():
    error = refusal(ChatRequest, {})
    assert (error.status, error.param, error.message) == (400, "messages", "messages is missing.")


def test_no_object():
    assert "Content-Type: application/json" in of_validation([{"type": "x", "loc": ("body",), "msg": ""}], ()).message
    [invalid] = [
        {"type": "json_invalid", "loc": ("body", 3), "msg": "JSON decode error", "ctx": {"error": "Expecting"}}
    ]
    assert of_validation([invalid], ()).message == "the body is no JSON: Expecting."


@pytest.mark.parametrize("prompt", ["a", ["a", "b"], [1, 2], [[1], [2, 3]]])
def test_all_forms_of_prompts(prompt):
    assert CompletionRequest(prompt=prompt).prompt == prompt


def test_messages_keep_keys_of_their_own():
    body = {"messages": [{"role": "user", "content": "a", "weather": "fine", "tool_calls": None}]}
    [message] = ChatRequest.model_validate(body).messages
    assert message.model_dump(exclude_none=True) == {"role": "user", "content": "a", "weather": "fine"}
