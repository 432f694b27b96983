"""Host work of rounds by hand: two requests, whose rounds wait for one pass of the draft and for two."""

import pytest

from saguaro import LLM
from saguaro.calibrate.host import host_work
from saguaro.calibrate.recording import record, recording_options
from saguaro.engine.trace import Ring
from saguaro.errors import ConfigError


def round_of(target, draft, at, request, passes):
    """A round that begins at `at`: .4 s of verification, .01 of drawing, .02 of host work, passes of .1 with .003
    between them, .004 before and .002 after them, .01 of host work. Returns when the next one begins.
    """
    target.span("verify", at, at + 0.4, {"requests": [request]})
    target.span("draw", at + 0.4, at + 0.41)
    target.span("report", at + 0.41, at + 0.42)
    wait = begin = at + 0.43
    begin += 0.004
    for _ in range(passes):
        draft.span("tail", begin, begin + 0.1)
        begin += 0.103
    target.span("wait, pending", wait, begin - 0.001, {"request": request})
    return begin + 0.009


def traces(rounds):
    target, draft = Ring("target", 1), Ring("draft", 2)
    at = 0.0
    for request in (7, 8):
        target.span("prefill", at, at + 0.3, {"requests": [request]})
        draft.span("prefill", at + 0.3, at + 0.35)
        at += 0.5
        for passes in rounds:
            at = round_of(target, draft, at, request, passes)
        at += 5.0
    return [draft.take(), target.take()]


def test_what_is_no_pass_no_draw_and_no_wait_is_host_work():
    found = host_work(traces((1, 2, 2)))
    assert found.handling == pytest.approx(0.03)
    assert found.link == pytest.approx((0.004 + 0.002) / 2)
    assert found.between == pytest.approx(0.003)


def test_waits_of_one_pass_have_nothing_between():
    assert host_work(traces((1, 1))).between == 0.0


def test_a_recording_has_what_is_asked_for():
    engine = {
        "target": "toy:llama?seed=1&vocab=48", "draft": "toy:llama?seed=1&vocab=48&noise=0.05", "channel": "loopback",
        "dtype": "float32", "max_model_len": 64, "trace": True,
    }  # fmt: skip
    with LLM(**recording_options(engine, lookahead=3, candidates=4, rows=1)) as llm:
        record(llm, ["abc", "x"], temperature=0.0, max_tokens=16)
        found = host_work(llm.trace())
    assert min(found.link, found.between, found.handling) > 0


@pytest.mark.parametrize("rounds", [(), (1,), (0, 0)])
def test_too_few_rounds_are_refused(rounds):
    with pytest.raises(ConfigError, match="no two rounds"):
        host_work(traces(rounds))
