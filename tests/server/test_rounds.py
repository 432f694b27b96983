"""`saguaro.rounds`: records of rounds with the answer, equal to its counters, and only when asked for."""

from __future__ import annotations

import pytest
from tests.server.conftest import events, served

from saguaro.choices import merged
from saguaro.request import Delta
from saguaro.server.wire import responses

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
BODIES = {
    CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    TEXT: {"prompt": "hi"},
}
SHORT = {"max_tokens": 40, "seed": 3, "temperature": 0.7, "ignore_eos": True}
ASKED = {"saguaro": {"rounds": True}, "return_metrics": True}


def stream(server, path, **more):
    """The chunks of a stream."""
    found = events(server.post(path, {**BODIES[path], **SHORT, **more, "stream": True}).text)
    assert found[-1] == "[DONE]"
    return found[:-1]


def text_of(choice):
    return (choice.get("delta") or choice.get("message") or {}).get("content") or choice.get("text") or ""


def check(rounds, metrics):
    """The records add up to the counters of the same request."""
    first, *later = rounds
    looked = [each for each in later if each["hit"] is not None]
    hits = [each for each in looked if each["hit"]]
    missed = [each["reason"] for each in looked if not each["hit"]]
    assert (first["source"], len(first["tokens"])) == ("prefill", 1)
    assert len(later) == metrics["rounds"]
    assert sum(len(each["tokens"]) - 1 for each in later) == metrics["accepted"]
    assert sum(each["proposed"] for each in later) == metrics["drafted"]
    assert (len(hits), len(missed)) == (metrics["hits"], metrics["misses"])
    assert {name: missed.count(name) for name in metrics["miss_reasons"]} == metrics["miss_reasons"]
    assert sum(each["depth"] for each in hits) == metrics["hit_depth_sum"]
    assert sum(each["branches"] for each in looked) == metrics["branches"]
    assert sum(each["verify_ms"] for each in later) == pytest.approx(1000 * metrics["verify_seconds"])
    for kind, name in (("depth", "wait_depth"), ("pending", "wait_pending"), ("handover", "handover")):
        assert sum(each["wait_ms"][kind] for each in later) == pytest.approx(1000 * metrics[f"{name}_seconds"])
    assert later[-1]["time"] - first["time"] == pytest.approx(metrics["decode_seconds"])
    for each in later:
        origins = [token["origin"] for token in each["tokens"]]
        accepted = {"hit": "hit", "forced": "forced"}.get(each["source"], "fallback")
        assert origins == [accepted] * (len(origins) - 1) + ["bonus"] or origins == [accepted] * each["accepted"]


@pytest.mark.parametrize("path", BODIES)
def test_a_stream_tells_its_rounds(llm_of_mode, path):
    server = served(llm_of_mode)
    chunks = stream(server, path, **ASKED)
    model = responses.ChatChunk if path == CHAT else responses.TextCompletion
    for chunk in chunks:
        model.model_validate(chunk)
    choices = [chunk["choices"][0] for chunk in chunks]
    rounds = [each for choice in choices for each in choice.get("saguaro", {"rounds": []})["rounds"]]
    check(rounds, choices[-1]["metrics"])
    assert (choices[-1]["metrics"]["hits"] > 0) == (llm_of_mode.mode == "ssd")
    tokens = [token for each in rounds for token in each["tokens"]]
    assert "".join(token["text"] for token in tokens) == "".join(map(text_of, choices))
    assert len(tokens) == 40

    [whole] = server.post(path, {**BODIES[path], **SHORT, **ASKED}).json()["choices"]
    assert [token["id"] for each in whole["saguaro"]["rounds"] for token in each["tokens"]] == [
        token["id"] for token in tokens
    ]
    check(whole["saguaro"]["rounds"], whole["metrics"])
    assert text_of(whole) == "".join(map(text_of, choices))


def test_speculation_off_says_the_same_by_the_target_alone(server):
    plain, alone = (
        [
            each
            for chunk in stream(server, CHAT, **ASKED, **more)
            for each in chunk["choices"][0].get("saguaro", {"rounds": []})["rounds"]
        ]
        for more in ({}, {"speculation": 0})
    )
    ids = [[token["id"] for each in rounds for token in each["tokens"]] for rounds in (plain, alone)]
    assert ids[0] == ids[1]
    assert {each["proposed"] for each in alone} == {0}
    assert {each["hit"] for each in alone} == {None}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("field", [{}, {"saguaro": None}, {"saguaro": {}}, {"saguaro": {"rounds": False}}])
def test_without_being_asked_nothing_is_told(server, path, field):
    for chunk in stream(server, path, **field):
        assert "saguaro" not in chunk["choices"][0]
    [whole] = server.post(path, {**BODIES[path], **SHORT, **field}).json()["choices"]
    assert "saguaro" not in whole


def test_several_choices_tell_their_own(server):
    chunks = stream(server, CHAT, n=2, **ASKED)
    for index in (0, 1):
        own = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        rounds = [each for choice in own for each in choice.get("saguaro", {"rounds": []})["rounds"]]
        check(rounds, own[-1]["metrics"])


def test_a_stop_string_cuts_the_record_too(server):
    [whole] = server.post(TEXT, {**BODIES[TEXT], **SHORT}).json()["choices"]
    stop = whole["text"][10:13]
    [cut] = server.post(TEXT, {**BODIES[TEXT], **SHORT, **ASKED, "stop": stop}).json()["choices"]
    rounds = cut["saguaro"]["rounds"]
    assert cut["finish_reason"] == "stop"
    assert "".join(token["text"] for each in rounds for token in each["tokens"]) == cut["text"]
    assert sum(len(each["tokens"]) - 1 for each in rounds[1:]) == cut["metrics"]["accepted"]


@pytest.mark.parametrize(
    ("value", "word"),
    [({"round": True}, "saguaro.round"), (True, "saguaro"), ({"rounds": 3}, "saguaro (at rounds)")],
)
def test_a_wrong_field_is_named(server, value, word):
    found = server.post(TEXT, {**BODIES[TEXT], "saguaro": value})
    assert found.status_code == 400
    assert word in found.json()["error"]["message"]
    assert found.json()["error"]["param"] == "saguaro"


def test_pieces_that_wait_for_a_slow_reader_keep_every_record():
    one = Delta("a", [1], origins=["prefill"], rounds=[{"round": 0}])
    found = merged(merged(one, Delta("b", [2], rounds=[{"round": 1}])), Delta("c", [3], rounds=[{"round": 2}]))
    assert [each["round"] for each in found.rounds] == [0, 1, 2]
    assert merged(Delta("a", [1]), Delta("b", [2])).rounds is None
