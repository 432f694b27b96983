"""Completions and pieces of them as the JSON of the OpenAI API.

A `Writer` belongs to one request: every event has its id and its time. Key order and nulls are those that the official
client expects; a role, a call's id and a function's name are sent once. Must not know: HTTP, engines.
Tests: tests/server/test_render.py, tests/server/test_responses.py.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from saguaro.models.text import Detokeniser
from saguaro.models.tokenizer import TextCodec
from saguaro.request import RequestMetrics, TokenLogprob
from saguaro.server.answers import Answer
from saguaro.server.parsers.base import Piece

NEVER = -9999.0
"""Stands for a probability of zero, which JSON cannot say."""


@dataclass
class Counts:
    """Tokens of a request, for its usage."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int | None = None

    def usage(self) -> dict[str, Any]:
        """The `usage` object."""
        found: dict[str, Any] = {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }
        if self.reasoning is not None:
            found["completion_tokens_details"] = {"reasoning_tokens": self.reasoning}
        return found


@dataclass
class Writer:
    """Writes the objects of one request.

    Args:
        model: the served name.
        chat: chat completions, or text completions.
    """

    model: str
    chat: bool
    id: str = ""
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self.id = self.id or ("chatcmpl-" if self.chat else "cmpl-") + secrets.token_hex(12)

    def whole(self, choices: Sequence[dict[str, Any]], counts: Counts) -> dict[str, Any]:
        """The answer of a request that is not streamed."""
        kind = "chat.completion" if self.chat else "text_completion"
        return {**self._head(kind), "choices": list(choices), "usage": counts.usage()}

    def chunk(self, choices: Sequence[dict[str, Any]], *, tells_usage: bool) -> dict[str, Any]:
        """An event; with `tells_usage` it says that the usage comes later."""
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        found = {**self._head(kind), "choices": list(choices)}
        return {**found, "usage": None} if tells_usage else found

    def usage_chunk(self, counts: Counts) -> dict[str, Any]:
        """The event with the usage and no choices."""
        return {**self.chunk([], tells_usage=True), "usage": counts.usage()}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def choice(
    index: int,
    finish: str | None,
    logprobs: Any,
    metrics: RequestMetrics | None,
    rounds: Sequence[dict[str, Any]] | None = None,
    **body: Any,
) -> dict[str, Any]:
    """One choice, whole or a piece; `metrics` and `rounds` only where the request asked for them."""
    found = {"index": index, **body, "logprobs": logprobs, "finish_reason": finish}
    if metrics is not None:
        found["metrics"] = metrics.to_dict()
    if rounds is not None:
        found["saguaro"] = {"rounds": list(rounds)}
    return found


def message(answer: Answer, call_ids: Iterable[str]) -> dict[str, Any]:
    """The assistant's message of a whole answer."""
    found: dict[str, Any] = {"role": "assistant", "content": answer.content or None, "refusal": None}
    if not answer.calls:
        found["content"] = answer.content
    if answer.reasoning:
        found["reasoning_content"] = answer.reasoning
    if answer.calls:
        found["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, (name, arguments) in zip(call_ids, answer.calls, strict=False)
        ]
    return found


def delta(piece: Piece, call_id: str) -> dict[str, Any]:
    """A piece of a message as a delta."""
    if piece.kind == "content":
        return {"content": piece.text}
    if piece.kind == "reasoning":
        return {"reasoning_content": piece.text}
    if piece.kind == "call":
        function = {"name": piece.text, "arguments": ""}
        return {"tool_calls": [{"index": piece.number, "id": call_id, "type": "function", "function": function}]}
    return {"tool_calls": [{"index": piece.number, "function": {"arguments": piece.text}}]}


def call_id() -> str:
    """An id for a call of a function."""
    return "call_" + secrets.token_hex(12)


def finish_reason(reason: str | None, *, called: bool) -> str | None:
    """What the API calls the end of a choice."""
    return "tool_calls" if reason == "stop" and called else reason


def chat_logprobs(entries: Iterable[TokenLogprob], tokenizer: TextCodec) -> dict[str, Any]:
    """`logprobs` of a chat: one entry a token."""
    return {
        "content": [
            {
                **_token(entry.token_id, entry.logprob, tokenizer),
                "top_logprobs": [_token(token, value, tokenizer) for token, value in entry.top],
            }
            for entry in entries
        ]
    }


class TextLogprobs:
    """`logprobs` of one text completion: parallel lists, with offsets that go on from piece to piece."""

    def __init__(self, tokenizer: TextCodec, *, skip_special: bool, offset: int = 0) -> None:
        self._tokenizer = tokenizer
        self._detokeniser = Detokeniser(tokenizer, skip_special=skip_special)
        self._offset = offset

    def lists(self, entries: Iterable[tuple[int, TokenLogprob | None]]) -> dict[str, list[Any]]:
        """The lists of (token, its entry); the first token of a prompt has none."""
        found: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for token, entry in entries:
            found["tokens"].append(spelled(token, self._tokenizer))
            found["text_offset"].append(self._offset)
            found["token_logprobs"].append(None if entry is None else _finite(entry.logprob))
            found["top_logprobs"].append(None if entry is None else self._top(token, entry))
            self._offset += len(self._detokeniser.push([token]))
        return found

    def _top(self, token: int, entry: TokenLogprob) -> dict[str, float]:
        top = dict([*entry.top, (token, entry.logprob)])
        return {spelled(each, self._tokenizer): _finite(value) for each, value in top.items()}


def spelled(token: int, tokenizer: TextCodec) -> str:
    """The text of a token; one that is no whole text by its bytes, so that different tokens look different."""
    raw = tokenizer.token_bytes(token)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _token(token: int, logprob: float, tokenizer: TextCodec) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token)
    return {"token": raw.decode("utf-8", errors="replace"), "logprob": _finite(logprob), "bytes": list(raw)}


def _finite(value: float) -> float:
    return max(value, NEVER)
