"""The loops over real engines: the same tokens as `LLM.generate`, whoever runs beside whom."""

import pytest

from saguaro import LLM, RequestRefused, SamplingParams
from saguaro.bench.load import Request, closed_loop, open_loop
from saguaro.bench.session import Session

PROMPTS = ["abc", "the quick brown fox", "x" * 40, "12 34"]
DRAFTS = {"ar": None, "sd": "toy:llama?seed=0&noise=0.1", "ssd": "toy:llama?seed=0&noise=0.1"}


def opened(mode):
    return LLM(
        "toy:llama?seed=0", DRAFTS[mode], mode=mode, channel="loopback", lookahead=3, budget=5, max_batch=3,
        max_model_len=128, target_device="cpu:0", draft_device="cpu:0",
    )  # fmt: skip


def asked(count):
    lengths = (1, 12, 7, 9)
    return [
        Request(i, PROMPTS[i % 4], SamplingParams(temperature=0.8, seed=i, max_tokens=lengths[i % 4], ignore_eos=True))
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def expected():
    requests = asked(9)
    with opened("ar") as llm:
        return [llm.generate(request.prompt, request.params)[0].token_ids for request in requests]


@pytest.mark.parametrize("mode", ["ar", "sd", "ssd"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_closed_loop_changes_no_token(mode, rows, expected):
    with opened(mode) as llm:
        load = closed_loop(Session(llm), asked(9), rows)
        assert llm.statistics()["running"] == 0
    assert [one.completion.token_ids for one in load.served] == expected
    for one in load.served:
        assert sum(each.tokens for each in one.deliveries) == len(one.completion.token_ids)
        assert one.arrival == one.submitted <= one.first_token <= one.ended
        assert len(one.deliveries) == 1 + one.completion.metrics.rounds
    assert load.began < load.loaded_until <= max(one.ended for one in load.served)


def test_an_open_loop_changes_no_token(expected):
    with opened("ssd") as llm:
        load = open_loop(Session(llm), asked(9), [0.001 * i for i in range(9)])
        assert llm.statistics()["running"] == 0
    assert [one.completion.token_ids for one in load.served] == expected
    assert all(one.arrival <= one.submitted <= one.first_token for one in load.served)
    metrics = [one.completion.metrics for one in load.served if one.completion.metrics.rounds]
    assert all(m.hits + m.misses == m.rounds for m in metrics)


def test_an_engine_is_free_after_an_abort(expected):
    requests = asked(9)
    with opened("ssd") as llm:
        session = Session(llm)
        for request in requests[1:3]:
            session.start(request)
        session.poll(1.0)
        session.abort()
        assert llm.statistics()["running"] == 0
        load = closed_loop(Session(llm), requests[3:5], 2)
    assert [one.completion.token_ids for one in load.served] == expected[3:5]


def test_a_prompt_that_cannot_run_ends_the_others():
    too_long = Request(1, "x" * 500, SamplingParams(max_tokens=4))
    with opened("ar") as llm:
        requests = [*asked(1), too_long]
        requests[0] = Request(0, "abc", SamplingParams(max_tokens=100, ignore_eos=True))
        with pytest.raises(RequestRefused, match="at most 127 fit"):
            closed_loop(Session(llm), requests, 2)
        assert llm.statistics()["running"] == 0


def test_a_stop_string_ends_a_request_for_the_engine_too():
    with opened("ar") as llm:
        text = llm.generate("abc", SamplingParams(temperature=0, max_tokens=20, ignore_eos=True))[0].text
        params = SamplingParams(temperature=0, max_tokens=100, ignore_eos=True, stop=[text[2:4]])
        [served] = closed_loop(Session(llm), [Request(0, "abc", params)], 1).served
        assert served.completion.finish_reason == "stop"
        assert llm.statistics()["running"] == 0
