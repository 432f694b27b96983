"""A request becomes prompts as token ids, sampling parameters, and a way to read the answer.

Everything that can be refused is refused here or when the choices are made, before anything runs. Encoding takes time,
so this runs in a thread of its own (`front.py`). Must not know: HTTP, how requests run. Tests: tests/server/.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from saguaro.models.tokenizer import TextCodec
from saguaro.request import MAX_LOGPROBS, SamplingParams
from saguaro.server.answers import AnswerReader, MakeReader, NamedCall, Parsers
from saguaro.server.errors import ApiError
from saguaro.server.parsers.base import Parser
from saguaro.server.parsers.llama import Llama
from saguaro.server.wire.requests import (
    ChatRequest,
    CompletionRequest,
    Generation,
    InputItem,
    Message,
    NamedTool,
    ResponsesRequest,
    Tool,
)

SAME_NAME = (
    "temperature", "top_p", "n", "seed", "frequency_penalty", "presence_penalty", "logit_bias", "stop", "min_p",
    "repetition_penalty", "min_tokens", "stop_token_ids", "ignore_eos", "bad_words", "skip_special_tokens", "regex",
    "grammar", "speculation",
)  # fmt: skip
"""Fields of a request that `SamplingParams` calls the same."""
RESPONSE_SAME_NAME = (
    "temperature", "top_p", "seed", "top_k", "min_p", "repetition_penalty", "ignore_eos", "speculation",
    "chat_template_kwargs",
)  # fmt: skip
"""Fields of `/v1/responses` that chats call the same."""
TEMPLATE_OWN = frozenset(
    {"self", "messages", "tools", "add_generation_prompt", "clock", "strftime_now", "bos_token", "eos_token", "options"}
)
COMPLETION_TOKENS = 16
"""Default of `max_tokens` for text completions, as everywhere in the field."""


@dataclass(frozen=True)
class Asked:
    """What a request comes to.

    Attributes:
        prompts: token ids, one list a prompt.
        params: how each is completed.
        echoes: text to show before each completion; None shows none.
        scores_only: the one generated token is not shown (`max_tokens` 0).
        reader: makes a reader for each answer.
        reasons: the answer may have reasoning to be split off.
        rounds: records of the rounds come with the answer.
    """

    prompts: list[list[int]]
    params: SamplingParams
    echoes: list[str] | None = None
    scores_only: bool = False
    reader: MakeReader = AnswerReader
    reasons: bool = False
    rounds: bool = False


def check_text(request: BaseModel) -> None:
    """Refuse strings that are no text, wherever they stand in a request: no library of ours can take them.

    Raises:
        ApiError: naming the rule.
    """
    try:
        request.model_dump_json()
    except PydanticSerializationError:
        raise ApiError(400, "the body holds half of a surrogate pair (\\ud800 ... \\udfff); that is no text.") from None


def num_choices(request: Generation | ResponsesRequest) -> int:
    """Choices that a request asks for, before it is looked at more closely."""
    several = 1
    prompt = getattr(request, "prompt", None)
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        several = len(prompt)
    return several * max(1, getattr(request, "n", None) or 1)


def asked_of_chat(request: ChatRequest, tokenizer: TextCodec, parsers: Parsers, *, context: int) -> Asked:
    """A chat.

    Raises:
        ApiError, SaguaroError: it cannot be served as asked.
    """
    tools = _tools(request)
    _check_chat(request, tools, parsers)
    prompt = encode_chat(request.messages, tokenizer, tools, request.chat_template_kwargs)
    limit = request.max_completion_tokens if request.max_completion_tokens is not None else request.max_tokens
    logprobs = (request.top_logprobs or 0) if request.logprobs else None
    form = _forced_form(request, tools)
    params = sampling_params(
        request, max_tokens=max(1, context - len(prompt)) if limit is None else limit, logprobs=logprobs, **form
    )
    reasoning = parsers.reasoning if not form and not params.constrained else None
    begun = reasoning is not None and _ends_with(prompt, reasoning.mark, tokenizer)

    def reader() -> AnswerReader:
        return AnswerReader(
            reasoning(begun=begun) if reasoning else None,
            _tool_reader(request, tools, parsers),
            single=request.parallel_tool_calls is False,
        )

    return Asked([prompt], params, reader=reader, reasons=reasoning is not None, rounds=_wants_rounds(request))


def asked_of_completion(request: CompletionRequest, tokenizer: TextCodec) -> Asked:
    """Text completions.

    Raises:
        ApiError, SaguaroError: they cannot be served as asked.
    """
    given = _prompts(request.prompt)
    prompts = [tokenizer.encode(each) if isinstance(each, str) else list(each) for each in given]
    limit = COMPLETION_TOKENS if request.max_tokens is None else request.max_tokens
    scores_only = limit == 0 and bool(request.echo)
    params = sampling_params(
        request,
        max_tokens=1 if scores_only else limit,
        logprobs=request.logprobs,
        prompt_logprobs=request.logprobs if request.echo else None,
    )
    if request.echo and request.logprobs is not None and request.stream:
        raise ApiError(400, "echo with logprobs cannot be streamed; leave stream or logprobs out.", param="echo")
    echoes = None
    if request.echo:
        skip = params.skip_special_tokens
        echoes = [each if isinstance(each, str) else tokenizer.decode(each, skip_special=skip) for each in given]
    return Asked(prompts, params, echoes=echoes, scores_only=scores_only, rounds=_wants_rounds(request))


def asked_of_response(request: ResponsesRequest, tokenizer: TextCodec, parsers: Parsers, *, context: int) -> Asked:
    """A response: the chat that says the same.

    Raises:
        ApiError, SaguaroError: it cannot be served as asked.
    """
    messages = [{"role": "system", "content": request.instructions}] if request.instructions is not None else []
    if isinstance(request.input, str):
        messages.append({"role": "user", "content": request.input})
    else:
        messages += [_item(item) for item in request.input if item.type == "message"]
    same = {name: getattr(request, name) for name in RESPONSE_SAME_NAME}
    form = request.text.format if request.text is not None else None
    chat = ChatRequest.model_validate(
        {**same, "messages": messages, "max_tokens": request.max_output_tokens, "response_format": _chat_format(form)}
    )
    return asked_of_chat(chat, tokenizer, parsers, context=context)


def _item(item: InputItem) -> dict[str, Any]:
    """An item of a conversation as a message: its parts are text, whichever side they came from."""
    if item.role is None:
        raise ApiError(400, "every message of input needs a role.", param="input")
    content = item.content
    if isinstance(content, list):
        kinds = {"input_text": "text", "output_text": "text"}
        content = [{**part, "type": kinds.get(str(part.get("type")), part.get("type"))} for part in content]
    return {"role": item.role, "content": content}


def _chat_format(form: Any) -> dict[str, Any] | None:
    """A form of `/v1/responses` as chats have it: there the schema has a name of its own."""
    if form is None:
        return None
    given = form.model_dump(by_alias=True, exclude_none=True)
    kind = given.pop("type")
    return {"type": kind, "json_schema": given} if kind == "json_schema" else {"type": kind}


def sampling_params(request: Generation, **more: Any) -> SamplingParams:
    """The parameters of a request; `more` are those whose names or meanings differ.

    Raises:
        RequestRefused: a value out of its range. ApiError: fields that contradict each other.
    """
    if request.stream_options is not None and not request.stream:
        raise ApiError(400, "stream_options needs stream: true.", param="stream_options")
    values = {name: getattr(request, name) for name in SAME_NAME if getattr(request, name) is not None}
    if request.top_k is not None:
        values["top_k"] = 0 if request.top_k == -1 else request.top_k
    return SamplingParams(**{**values, **_form(request), **more})


def _wants_rounds(request: Generation) -> bool:
    return request.saguaro is not None and bool(request.saguaro.rounds)


def encode_chat(
    messages: Sequence[Message],
    tokenizer: TextCodec,
    tools: Sequence[Tool],
    variables: Mapping[str, Any] | None,
) -> list[int]:
    """Token ids of a rendered conversation.

    Raises:
        ApiError: a variable that the template has already. SaguaroError: the template refuses.
    """
    options = dict(variables or {})
    if taken := TEMPLATE_OWN & options.keys():
        raise ApiError(400, f"chat_template_kwargs cannot set {sorted(taken)[0]!r}.", param="chat_template_kwargs")
    if tools:
        options["tools"] = [tool.model_dump(exclude_none=True) for tool in tools]
    return tokenizer.encode_chat([message.model_dump(exclude_none=True) for message in messages], **options)


def _prompts(prompt: str | list[str] | list[int] | list[list[int]]) -> list[Any]:
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise ApiError(400, "prompt is empty; give at least one token.", param="prompt")
    return [prompt] if isinstance(prompt[0], int) else list(prompt)


def _form(request: Generation) -> dict[str, Any]:
    """The parameter for a `response_format`."""
    wanted = request.response_format
    if wanted is None or wanted.type == "text":
        return {}
    if wanted.type == "json_object":
        return {"json_object": True}
    schema = wanted.json_schema.schema_
    return {"json_schema": True if schema is None else schema}


# -- tools --------------------------------------------------------------------------------------------------------


def _tools(request: ChatRequest) -> list[Tool]:
    """The tools that the model is told of."""
    return [] if request.tool_choice == "none" else list(request.tools or [])


def _check_chat(request: ChatRequest, tools: Sequence[Tool], parsers: Parsers) -> None:
    if request.top_logprobs is not None and not request.logprobs:
        raise ApiError(400, "top_logprobs needs logprobs: true.", param="top_logprobs")
    if request.top_logprobs is not None and not 0 <= request.top_logprobs <= MAX_LOGPROBS:
        raise ApiError(400, f"top_logprobs must be a whole number in 0 ... {MAX_LOGPROBS}.", param="top_logprobs")
    if request.tool_choice not in (None, "none") and not request.tools:
        raise ApiError(400, "tool_choice needs tools.", param="tool_choice")
    names = [tool.function.name for tool in tools]
    if len(set(names)) < len(names):
        raise ApiError(400, "tools names a function twice.", param="tools")
    if isinstance(request.tool_choice, NamedTool) and request.tool_choice.function.name not in names:
        wanted = request.tool_choice.function.name
        raise ApiError(400, f"tool_choice names {wanted!r}, which is none of the tools.", param="tool_choice")
    if tools and request.tool_choice in (None, "auto") and parsers.tools is None:
        raise ApiError(
            400,
            "this model's calls cannot be read (no tool parser fits it); use tool_choice 'required' or a function, "
            "or start the server with --tool-parser.",
            param="tools",
        )
    constrained = request.regex or request.grammar or _form(request)
    if tools and constrained:
        raise ApiError(400, "a form of the output and tools exclude each other; use tool_choice 'none'.", param="tools")


def _forced_form(request: ChatRequest, tools: Sequence[Tool]) -> dict[str, Any]:
    """The grammar that makes the answer a call, where the request demands one."""
    if not tools or request.tool_choice in (None, "auto"):
        return {}
    schemas = {tool.function.name: _closed(tool.function.parameters) for tool in tools}
    if isinstance(request.tool_choice, NamedTool):
        return {"json_schema": json.dumps(schemas[request.tool_choice.function.name])}
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": schema},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, schema in schemas.items()
    ]
    return {"json_schema": json.dumps(calls[0] if len(calls) == 1 else {"anyOf": calls})}


def _closed(schema: dict[str, Any] | None) -> dict[str, Any]:
    """The schema of a function's arguments; where it leaves that open, it has no arguments but those it names."""
    closed = {"additionalProperties": False} if schema and "properties" in schema else {}
    return {"type": "object", **closed, **(schema or {})}


def _tool_reader(request: ChatRequest, tools: Sequence[Tool], parsers: Parsers) -> Parser | None:
    if not tools:
        return None
    if isinstance(request.tool_choice, NamedTool):
        return NamedCall(request.tool_choice.function.name)
    names = [tool.function.name for tool in tools]
    if request.tool_choice == "required":
        return Llama(names)  # the form that the grammar of `_forced_form` demands
    assert parsers.tools is not None
    return parsers.tools(names)


def _ends_with(prompt: Sequence[int], mark: str, tokenizer: TextCodec) -> bool:
    """Whether a rendered prompt ends where the marked part has begun."""
    return tokenizer.decode(prompt[-8:], skip_special=False).rstrip().endswith(mark)
