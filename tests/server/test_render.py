"""Objects of the API: nulls, ids once, logprobs by token and byte."""

import math

from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.request import RequestMetrics, TokenLogprob
from saguaro.server import render
from saguaro.server.answers import Answer
from saguaro.server.parsers.base import Piece

TOKENIZER = ByteTokenizer(300)


def test_a_message():
    assert render.message(Answer("hi"), []) == {"role": "assistant", "content": "hi", "refusal": None}
    assert render.message(Answer(""), [])["content"] == ""
    called = render.message(Answer("", "hm", [("f", "{}")]), ["call_1"])
    assert called["content"] is None
    assert called["reasoning_content"] == "hm"
    assert called["tool_calls"] == [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


def test_deltas_say_id_and_name_once():
    [first] = render.delta(Piece("call", "f", 1), "call_1")["tool_calls"]
    [second] = render.delta(Piece("arguments", "{", 1), "call_1")["tool_calls"]
    assert first == {"index": 1, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    assert second == {"index": 1, "function": {"arguments": "{"}}
    assert render.delta(Piece("content", "a"), "") == {"content": "a"}
    assert render.delta(Piece("reasoning", "a"), "") == {"reasoning_content": "a"}


def test_how_a_choice_ends():
    assert render.finish_reason("stop", called=True) == "tool_calls"
    assert render.finish_reason("length", called=True) == "length"
    assert render.finish_reason("stop", called=False) == "stop"
    assert render.finish_reason(None, called=True) is None


def test_metrics_only_where_asked():
    assert "metrics" not in render.choice(0, None, None, None, text="")
    assert render.choice(0, "stop", None, RequestMetrics(rounds=3), text="")["metrics"]["rounds"] == 3


def test_usage():
    assert render.Counts(3, 4, 2).usage() == {
        "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 2},
    }  # fmt: skip
    assert render.Counts(reasoning=5).usage()["completion_tokens_details"] == {"reasoning_tokens": 5}


def test_chat_logprobs_name_bytes():
    entry = TokenLogprob(0xC3, -0.5, [(0xC3, -0.5), (97, -math.inf)])
    [found] = render.chat_logprobs([entry], TOKENIZER)["content"]
    assert (found["token"], found["bytes"], found["logprob"]) == ("\ufffd", [0xC3], -0.5)
    assert found["top_logprobs"][1] == {"token": "a", "logprob": -9999.0, "bytes": [97]}
    assert render.chat_logprobs([TokenLogprob(97, -1.0)], TOKENIZER)["content"][0]["top_logprobs"] == []


def test_text_logprobs_count_characters_across_pieces():
    lists = render.TextLogprobs(TOKENIZER, skip_special=True, offset=2)
    first = lists.lists([(97, None), (0xC3, TokenLogprob(0xC3, -1.0, [(98, -0.5)]))])
    second = lists.lists([(0xA9, TokenLogprob(0xA9, -2.0)), (98, TokenLogprob(98, -3.0))])
    assert first == {
        "tokens": ["a", "bytes:\\xc3"],
        "token_logprobs": [None, -1.0],
        "top_logprobs": [None, {"b": -0.5, "bytes:\\xc3": -1.0}],
        "text_offset": [2, 3],
    }
    assert second["text_offset"] == [3, 4]


def test_every_object_of_a_request_has_its_id():
    writer = render.Writer("m", chat=True)
    whole, chunk = writer.whole([], render.Counts()), writer.chunk([], tells_usage=False)
    assert whole["id"] == chunk["id"]
    assert (whole["object"], chunk["object"]) == ("chat.completion", "chat.completion.chunk")
    assert "usage" not in chunk
    assert writer.chunk([], tells_usage=True)["usage"] is None
    assert render.Writer("m", chat=False).chunk([], tells_usage=False)["object"] == "text_completion"
