"""What clients get. The server writes plain dictionaries (`render.py`); these models are their shape, for the OpenAPI
schema and for the tests that hold the answers to it.

Must not know: engines. Tests: tests/server/test_responses.py.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """No field beyond those named."""

    model_config = ConfigDict(extra="forbid")


class Error(Shape):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(Shape):
    """The body of every answer whose status is 400 or above."""

    error: Error


class PromptDetails(Shape):
    """Of the prompt."""

    cached_tokens: int


class CompletionDetails(Shape):
    """Of the answer; present when reasoning is split off."""

    reasoning_tokens: int


class Usage(Shape):
    """Tokens; a stop token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails | None = None


class TopLogprob(Shape):
    """A likely token."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobEntry(TopLogprob):
    """A token of the answer."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(Shape):
    """One entry a token."""

    content: list[TokenLogprobEntry]


class CalledFunction(Shape):
    """Which function, with which arguments (JSON as text)."""

    name: str
    arguments: str


class ToolCall(Shape):
    """A call that the model asks for."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AnswerMessage(Shape):
    """The assistant's message."""

    role: Literal["assistant"]
    content: str | None
    refusal: None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None


class RoundToken(Shape):
    """A token, the text that it completed, and where it came from (`prefill`, `hit`, `fallback`, `forced`, `bonus`)."""

    id: int
    text: str
    origin: Literal["prefill", "hit", "fallback", "forced", "bonus"]


class RoundWaits(Shape):
    """Milliseconds between the outcome and the verification."""

    depth: float
    pending: float
    handover: float


class Round(Shape):
    """The record of a round (docs/metrics.md); the first one is the end of prefill."""

    round: int
    k: int | None
    bonus: int | None
    source: str
    hit: bool | None
    reason: str | None
    proposed: int
    accepted: int
    depth: int
    branches: int
    wait_ms: RoundWaits
    verify_ms: float
    rows: int
    time: float
    tokens: list[RoundToken]


class Told(Shape):
    """What a request asked for by its field `saguaro`."""

    rounds: list[Round]


class ChatChoice(Shape):
    """One answer."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "abort"]
    metrics: dict[str, Any] | None = None
    saguaro: Told | None = None


class ChatCompletion(Shape):
    """Answer of `/v1/chat/completions`."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class FunctionDelta(Shape):
    """A piece of a call; the name comes once."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(Shape):
    """A piece of a call; id and type come once."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionDelta


class ChatDelta(Shape):
    """A piece of a message; the role comes once."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChunkChoice(Shape):
    """A piece of one answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "abort"] | None
    metrics: dict[str, Any] | None = None
    saguaro: Told | None = None


class ChatChunk(Shape):
    """An event of a chat stream."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | None = None


class TextLogprobs(Shape):
    """Parallel lists, one entry a token; the first token of a prompt has none."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TextChoice(Shape):
    """One completion, or a piece of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length", "abort"] | None
    metrics: dict[str, Any] | None = None
    saguaro: Told | None = None


class TextCompletion(Shape):
    """Answer of `/v1/completions`, and each event of its stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage | None = None


class Model(Shape):
    """A served model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelList(Shape):
    """Answer of `/v1/models`."""

    object: Literal["list"]
    data: list[Model]


class Tokens(Shape):
    """Answer of `/tokenize`."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class Text(Shape):
    """Answer of `/detokenize`."""

    prompt: str


class HealthReport(Shape):
    """Answer of `/health`."""

    status: Literal["alive", "degraded", "dead", "stopping"]
    reason: str | None
    mode: str


class DraftState(Shape):
    """What the draft has done so far."""

    steps: int
    busy_seconds: float
    idle_seconds: float


class EngineState(Shape):
    """Answer of `/state`: how the engine decodes now. K and B are null where nothing is proposed."""

    model: str
    mode: Literal["ar", "sd", "ssd"]
    gear: Literal["ar", "sd", "ssd"]
    lookahead: int | None
    budget: int | None
    verification: str
    context: int
    max_batch: int
    running: int
    waiting: int
    draft_name: str | None
    draft: DraftState | None


class ResponseText(Shape):
    """A part of an item."""

    type: Literal["output_text", "reasoning_text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class ResponseItem(Shape):
    """An item of output: the reasoning, or the message."""

    id: str
    type: Literal["message", "reasoning"]
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["assistant"] | None = None
    summary: list[Any] | None = None
    content: list[ResponseText]


class InputDetails(Shape):
    """Of the prompt."""

    cached_tokens: int


class OutputDetails(Shape):
    """Of the answer."""

    reasoning_tokens: int


class ResponseUsage(Shape):
    """Tokens; a stop token counts."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class IncompleteDetails(Shape):
    """Why an answer is not complete."""

    reason: Literal["max_output_tokens"]


class ResponseObject(Shape):
    """Answer of `/v1/responses`."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete"]
    error: None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    model: str
    output: list[ResponseItem]
    parallel_tool_calls: bool
    previous_response_id: None
    store: Literal[False]
    temperature: float
    text: dict[str, Any]
    tool_choice: Literal["none"]
    tools: list[Any]
    top_p: float
    truncation: Literal["disabled"]
    usage: ResponseUsage | None
