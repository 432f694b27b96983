"""A chat with reasoning and calls: its pieces add up, as a client adds them, to the whole message."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.request import Completion, Delta, RequestMetrics, SamplingParams, TokenLogprob
from saguaro.server.answers import AnswerReader, Parsers
from saguaro.server.endpoints.chat import ChatForm
from saguaro.server.parsers.hermes import Hermes
from saguaro.server.parsers.qwen3 import Qwen3
from saguaro.server.translate import Asked
from saguaro.server.wire.requests import ChatRequest
from saguaro.server.wire.responses import ChatChoice, ChunkChoice

TEXT = (
    "<think>\nHm.\n</think>\n\nI look. <tool_call>\n"
    '{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
)
ENDING = 290


@dataclass
class Marked(ByteTokenizer):
    """Bytes, and one token that ends reasoning."""

    def __init__(self):
        super().__init__(300)

    def encode(self, text, *, add_special=True):
        return [ENDING] if text == "</think>" else super().encode(text, add_special=add_special)


def form(**fields: Any) -> ChatForm:
    front = SimpleNamespace(name="m", tokenizer=Marked(), parsers=Parsers(Hermes, Qwen3))
    asked = Asked([[1]], SamplingParams(), reader=lambda: AnswerReader(Qwen3(), Hermes()), reasons=True)
    messages = [{"role": "user", "content": "hi"}]
    return ChatForm(front, asked, ChatRequest.model_validate({"messages": messages, **fields}))


def accumulate(pieces: list[dict]) -> dict:
    """As the official client does: strings of a delta are joined, calls go by their index."""
    message: dict = {}
    for piece in pieces:
        for key, value in piece["delta"].items():
            if key != "tool_calls":
                message[key] = message.get(key, "") + value
                continue
            calls = message.setdefault("tool_calls", [])
            for call in value:
                if call["index"] == len(calls):
                    calls.append({"id": "", "type": call["type"], "function": {"name": "", "arguments": ""}})
                known = calls[call["index"]]
                known["id"] += call.get("id", "")
                known["function"]["name"] += call["function"].get("name", "")
                known["function"]["arguments"] += call["function"]["arguments"]
    return message


@pytest.mark.parametrize("cut", [1, 2, 7, 1000])
def test_pieces_add_up_to_the_message(cut):
    writes = form()
    texts = [TEXT[place : place + cut] for place in range(0, len(TEXT), cut)]
    deltas = [Delta(text, []) for text in texts] + [Delta("", [], "stop")]
    pieces = [*writes.beginnings(1), *(piece for delta in deltas for piece in writes.pieces(0, delta))]
    for piece in pieces:
        ChunkChoice.model_validate(piece)
    message = accumulate(pieces)
    completion = Completion(TEXT, [], "stop", [1], RequestMetrics(), 0)
    whole = writes.__class__(writes.front, writes.asked, ChatRequest(messages=[])).whole(0, completion)
    ChatChoice.model_validate(whole)
    assert message["role"] == "assistant"
    assert (message["content"], message["reasoning_content"]) == ("I look.", "Hm.")
    assert (whole["message"]["content"], whole["message"]["reasoning_content"]) == ("I look.", "Hm.")
    calls = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message["tool_calls"]]
    assert calls == [("weather", {"city": "Rome"}), ("add", {"a": 1})]
    assert [call["function"] for call in whole["message"]["tool_calls"]] == [
        call["function"] for call in message["tool_calls"]
    ]
    assert len({call["id"] for call in message["tool_calls"]}) == 2
    assert pieces[-1]["finish_reason"] == whole["finish_reason"] == "tool_calls"


def test_every_entry_of_logprobs_is_sent_once_also_where_the_text_is_held_back():
    writes = form(logprobs=True)
    deltas = [Delta(letter, [5], None, logprobs=[TokenLogprob(number, -1.0)]) for number, letter in enumerate(TEXT)]
    pieces = [piece for delta in [*deltas, Delta("", [], "stop", logprobs=[])] for piece in writes.pieces(0, delta)]
    entries = [entry for piece in pieces for entry in (piece["logprobs"] or {"content": []})["content"]]
    assert len(entries) == len(TEXT)


def test_reasoning_tokens_are_those_before_its_end():
    writes = form()
    list(writes.pieces(0, Delta("<think>hm", [])))
    assert writes.reasoning_tokens(0, [1, 2, 3]) == 3  # cut while it reasons
    assert writes.reasoning_tokens(0, [1, 2, ENDING, 4, 5]) == 2
    list(writes.pieces(1, Delta("plain", [])))
    assert writes.reasoning_tokens(1, [1, 2, 3]) == 0
