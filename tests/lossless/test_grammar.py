"""Structured output under speculation: valid, equal to AR, and with most tokens forced in few rounds.

The toy pair reads bytes (300 ids: 256 bytes, two special tokens, syllables), so that most of JSON's marks are forced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from tests.lossless.conftest import opened

from saguaro import LLM, RequestRefused, SamplingParams
from saguaro.engine.build import build_draft
from saguaro.errors import SaguaroError
from saguaro.request import Completion
from saguaro.transport.loopback import Loopback

TARGET = "toy:llama?seed=1&vocab=300&layers=2"
DRAFT = TARGET + "&noise=0.1"
END = 256
PROMPTS = [[1, 2, 3], [72, 105], [65, 66, 67, 68, 69]]
SCHEMA = {
    "type": "object",
    "properties": {
        "first_name": {"type": "string", "maxLength": 5},
        "is_registered": {"type": "boolean"},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["first_name", "is_registered", "colours"],
    "additionalProperties": False,
}
LARK = """
start: "let " NAME " = " sum ";"
sum: NUMBER (" + " NUMBER)*
NAME: /[a-z]{1,3}/
NUMBER: /[0-9]{1,2}/
"""


def fits_schema(text: str) -> bool:
    value = json.loads(text)
    assert list(value) == ["first_name", "is_registered", "colours"]
    assert isinstance(value["first_name"], str)
    assert len(value["first_name"]) <= 5
    assert value["is_registered"] in (True, False)
    assert 1 <= len(value["colours"]) <= 2
    assert set(value["colours"]) <= {"red", "green", "blue"}
    return True


CASES: dict[str, tuple[dict[str, Any], Callable[[str], Any]]] = {
    "schema": ({"json_schema": SCHEMA}, fits_schema),
    "object": ({"json_object": True}, lambda text: isinstance(json.loads(text), dict)),
    "regex": ({"regex": r"([0-9]{3}-)+[a-f]{4}(é|ü)?"}, lambda text: re.fullmatch(r"([0-9]{3}-)+[a-f]{4}(é|ü)?", text)),
    "lark": (
        {"grammar": LARK}, lambda text: re.fullmatch(r"let [a-z]{1,3} = [0-9]{1,2}( \+ [0-9]{1,2})*;", text),
    ),
}  # fmt: skip
MODES: dict[str, dict[str, Any]] = {
    "sd": {"mode": "sd", "drafter": "mixed"},
    "hit": {"mode": "ssd", "drafter": "hit", "pacing": "lockstep"},
    "miss": {"mode": "ssd", "drafter": "mixed", "fan_out": "none"},
    "mixed": {"mode": "ssd", "drafter": "mixed", "pacing": "lockstep"},
    "shortlist": {"mode": "ssd", "drafter_options": {"shortlist": 120}},
    "ngram": {"mode": "ssd", "fallback": "ngram", "fan_out": "none"},
}


@contextmanager
def engine(mode: str, **options: Any) -> Iterator[LLM]:
    """The byte pair in a mode."""
    with opened(mode, "float32", "loopback", target=TARGET, draft_=DRAFT, max_model_len=192, **options) as llm:
        yield llm


def asked(name: str, temperature: float = 1.0, **more: Any) -> SamplingParams:
    return SamplingParams(**{"temperature": temperature, "max_tokens": 90, "seed": 4, **CASES[name][0], **more})


@pytest.fixture(scope="module")
def ar():
    with engine("ar") as llm:
        yield llm


Expected = Callable[[list[list[int]], SamplingParams], list[Completion]]


@pytest.fixture(scope="module")
def expected(ar: LLM) -> Expected:
    """What AR gives, computed once."""
    known: dict[tuple[str, SamplingParams], list[Completion]] = {}

    def of(prompts: list[list[int]], params: SamplingParams) -> list[Completion]:
        key = (str(prompts), params)
        if key not in known:
            known[key] = ar.generate(prompts, params)
        return known[key]

    return of


@pytest.fixture(scope="module", params=MODES)
def speculating(request: pytest.FixtureRequest):
    options = dict(MODES[request.param])
    with engine(options.pop("mode"), lookahead=4, budget=8, **options) as llm:
        yield llm


def check(name: str, completion: Completion) -> None:
    if completion.finish_reason == "stop":
        assert completion.token_ids[-1] == END
        assert CASES[name][1](completion.text), completion.text
    else:
        assert len(completion.token_ids) == 90


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_speculation_gives_the_valid_output_of_ar(
    expected: Expected, speculating: LLM, name: str, temperature: float
) -> None:
    wanted = expected(PROMPTS, asked(name, temperature))
    found = speculating.generate(PROMPTS, asked(name, temperature))
    for completion in wanted:
        check(name, completion)
        assert completion.metrics.drafted == 0  # AR takes no proposals, not even certain ones
    if name == "schema":
        assert all(completion.finish_reason == "stop" for completion in wanted)
    assert [c.token_ids for c in found] == [c.token_ids for c in wanted]
    assert [(c.text, c.finish_reason) for c in found] == [(c.text, c.finish_reason) for c in wanted]


def test_neighbours_without_a_grammar_are_left_alone(expected: Expected, speculating: LLM) -> None:  # B19
    plain = SamplingParams(temperature=1.0, max_tokens=60, seed=9, ignore_eos=True)
    each = [plain, asked("schema"), plain, asked("lark", 0.0), asked("regex")]
    prompts = [PROMPTS[i % 3] for i in range(5)]
    alone = [expected([prompt], p)[0].token_ids for prompt, p in zip(prompts, each, strict=True)]
    assert [c.token_ids for c in speculating.generate(prompts, each)] == alone


def test_forced_tokens_are_accepted_and_save_rounds(speculating: LLM) -> None:
    for completion in speculating.generate(PROMPTS, asked("schema")):
        m = completion.metrics
        assert len(completion.token_ids) == 1 + m.rounds + m.accepted
        assert 3 * m.rounds < len(completion.token_ids)
        assert completion.origins.count("forced") > 10


def test_a_text_of_which_all_is_forced_takes_a_round_in_seventeen_tokens(ar: LLM, speculating: LLM) -> None:
    text = '{"all of this": ["is", "certain", true, null, 123456789012345678901234567890]}'
    params = SamplingParams(temperature=1.0, max_tokens=100, seed=4, regex=re.escape(text))
    [alone], [completion] = ar.generate(PROMPTS[0], params), speculating.generate(PROMPTS[0], params)
    m = completion.metrics
    assert completion.token_ids == alone.token_ids == [*text.encode(), END]
    assert alone.metrics.rounds == len(text)
    assert m.drafted == m.verified == m.accepted + 1 == completion.origins.count("forced")  # the end is the last one
    assert m.rounds == -(-len(text) // 17)
    assert m.hits == 0
    assert m.misses in (0, m.rounds)  # SD looks nothing up


@pytest.mark.parametrize("speculation", [0, 2])
def test_the_request_limits_forced_proposals_too(speculating: LLM, speculation: int) -> None:
    params = SamplingParams(temperature=0.0, max_tokens=40, regex="a{30}", speculation=speculation)
    [completion] = speculating.generate(PROMPTS[0], params)
    assert completion.text == "a" * 30
    assert completion.metrics.rounds == -(-30 // (speculation + 1))
    [cut] = speculating.generate(PROMPTS[0], SamplingParams(temperature=0.0, max_tokens=12, regex="a{30}"))
    assert (len(cut.token_ids), cut.finish_reason) == (12, "length")


def test_without_an_end_a_complete_text_ends_all_the_same(ar: LLM, speculating: LLM) -> None:
    for llm in (ar, speculating):
        found = llm.generate(PROMPTS, asked("schema", ignore_eos=True))
        assert all(c.finish_reason == "stop" and fits_schema(c.text) for c in found)
        assert not any(END in c.token_ids for c in found)
        longer = llm.generate(PROMPTS[0], asked("regex", ignore_eos=True, max_tokens=6))[0]
        assert (longer.finish_reason, len(longer.token_ids)) == ("length", 6)


def test_log_probabilities_are_of_the_law_before_the_grammar(ar: LLM, speculating: LLM) -> None:
    greedy = SamplingParams(temperature=0.0, max_tokens=1, logprobs=3)
    [plain] = ar.generate(PROMPTS[0], greedy)
    wanted = ar.generate(PROMPTS[0], asked("schema", logprobs=2))[0].logprobs
    found = speculating.generate(PROMPTS[0], asked("schema", logprobs=2))[0].logprobs
    assert found is not None
    assert wanted is not None
    assert [entry.token_id for entry in found] == [entry.token_id for entry in wanted]
    assert [entry.top for entry in found] == [entry.top for entry in wanted]
    assert plain.logprobs is not None
    assert found[0].top == plain.logprobs[0].top[:2]


def test_other_options_stay_in_force(expected: Expected, speculating: LLM) -> None:
    """Bans, bias, a stop string, and tokens that must come before the end."""
    free = json.loads(expected(PROMPTS, asked("schema", 0.0))[0].text)["first_name"]
    word = next(c for c in free if c not in json.dumps(SCHEMA))
    for more in (
        {"bad_words": [word], "temperature": 0.0}, {"logit_bias": {ord("t"): -100}}, {"stop": '"colours'},
        {"min_tokens": 88}, {"frequency_penalty": 1.0, "top_k": 5}, {"n": 3}, {"stop_token_ids": [ord(":")]},
    ):  # fmt: skip
        wanted = expected(PROMPTS[:1], asked("schema", **more))
        found = speculating.generate(PROMPTS[0], asked("schema", **more))
        assert [c.token_ids for c in found] == [c.token_ids for c in wanted]
        assert all(c.finish_reason == "stop" for c in found)
        if "stop" in more:
            assert all(re.fullmatch(r'\{"first_name":".{0,12}","is_registered":(true|false),', c.text) for c in found)
        elif "stop_token_ids" in more:
            assert all(c.token_ids[-1] == ord(":") for c in found)
        else:
            assert all(fits_schema(c.text) for c in found)
        if "bad_words" in more:
            assert all(word not in c.text for c in found)
        if "logit_bias" in more:
            assert all(json.loads(c.text)["is_registered"] is False for c in found)


def test_min_tokens_holds_the_end_back_where_more_may_come(speculating: LLM) -> None:
    params = SamplingParams(temperature=1.0, max_tokens=60, seed=4, min_tokens=25, regex="[ab]+")
    for completion in speculating.generate(PROMPTS, params):
        assert len(completion.token_ids) > 25 or completion.finish_reason == "length"
        assert set(completion.text) <= {"a", "b"}


def test_a_place_where_nothing_is_left_fails_with_the_reason(ar: LLM, speculating: LLM) -> None:
    params = SamplingParams(temperature=1.0, max_tokens=20, seed=4, regex="x(yz){4}", bad_words=["z"])
    for llm in (ar, speculating):
        with pytest.raises(SaguaroError, match="bad_words leave no token"):
            llm.generate(PROMPTS[0], params)
        assert llm.generate(PROMPTS[0], asked("schema"))[0].finish_reason == "stop"  # and the engine goes on


def test_a_bad_grammar_is_refused_before_anything_runs(ar: LLM) -> None:
    for values, reason in (
        ({"json_schema": {"type": "objekt"}}, "objekt"), ({"regex": "(a"}, "unclosed"), ({"grammar": "x"}, "."),
    ):  # fmt: skip
        with pytest.raises(RequestRefused, match=reason):
            ar.generate(PROMPTS, SamplingParams(**values))
    assert ar.statistics()["running"] == 0


@pytest.fixture(scope="module", params=["sd", "hit", "miss", "mixed"])
def rejecting(request: pytest.FixtureRequest):
    options = dict(MODES[request.param])
    with engine(options.pop("mode"), lookahead=4, budget=8, verification="rejection", **options) as llm:
        yield llm


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_under_rejection_the_output_is_valid(expected: Expected, rejecting: LLM, name: str, temperature: float) -> None:
    found = rejecting.generate(PROMPTS, asked(name, temperature))
    for completion in found:
        check(name, completion)
    if temperature == 0:
        assert [c.token_ids for c in found] == [c.token_ids for c in expected(PROMPTS, asked(name, 0.0))]
    if name == "schema":
        assert all(c.finish_reason == "stop" for c in found)
        assert all(3 * c.metrics.rounds < len(c.token_ids) for c in found)


def test_under_rejection_a_place_where_nothing_is_left_fails(rejecting: LLM) -> None:
    for temperature in (0.0, 1.0):
        params = SamplingParams(temperature=temperature, max_tokens=20, seed=4, regex="[xw](yz){4}", bad_words=["z"])
        with pytest.raises(SaguaroError, match="bad_words leave no token"):
            rejecting.generate(PROMPTS[0], params)


@pytest.mark.processes
def test_in_processes_of_their_own(ar: LLM) -> None:
    wanted = [c.token_ids for c in ar.generate(PROMPTS, asked("schema"))]
    with opened(
        "ssd", "float32", "processes", target=TARGET, draft_=DRAFT, max_model_len=192, lookahead=4, budget=8
    ) as llm:
        assert [c.token_ids for c in llm.generate(PROMPTS, asked("schema"))] == wanted


def test_a_draft_that_joins_again_takes_the_grammar_up_where_the_output_is(expected: Expected) -> None:
    params = asked("lark", grammar='start: ("let " /[a-z]{2}/ ";")+', ignore_eos=True)
    [wanted] = expected(PROMPTS[:1], params)
    tokens: list[int] = []
    origins: list[str] = []
    with engine("ssd", drafter="hit", pacing="lockstep", lookahead=3, budget=6) as llm:
        inner: Any = llm._engine
        for number, delta in enumerate(llm.stream(PROMPTS[0], params)):
            tokens += delta.token_ids
            origins += delta.origins if number > 4 else []
            if number == 4:
                with torch.inference_mode():
                    port = Loopback()
                    port.step = build_draft(inner.plan, port).step
                    inner.target.attach(port)
    assert tokens == wanted.token_ids
    assert "hit" in origins
    assert "forced" in origins


@pytest.mark.parametrize("mode", ["sd", "ssd"])
def test_forced_tokens_have_their_own_law_where_the_draft_is_short(mode: str) -> None:
    """Under `rejection`, with a draft that has no room for the row: the forced tokens are proposed all the same."""
    pattern = "[a-z](12345[a-z]{20}){5}"
    with engine(mode, lookahead=16, draft_kv_pages=2, verification="rejection") as llm:
        one = SamplingParams(temperature=1.0, seed=3, max_tokens=140, regex=pattern)
        [result] = llm.generate([list(range(15))], one)
    assert re.fullmatch(pattern, result.text) or result.finish_reason == "length"
