"""Metrics of real engines: what must add up, and each reason of a miss where it must come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.lossless.conftest import PROMPTS, opened, params

from saguaro import LLM, ConfigError, RequestMetrics
from saguaro.engine.trace import chrome_trace, shares
from saguaro.request import MISS_REASONS, RATES

ENGINES: dict[str, dict[str, Any]] = {
    "ranked": {"drafter": "mixed", "pacing": "lockstep", "budget": 5},
    "listed": {"drafter": "mixed", "pacing": "lockstep", "fan_out": [0, 1, 1, 1], "fallback": "random"},
    "rejection": {"drafter": "mixed", "fan_out": [0, 1, 1, 1], "verification": "rejection"},
    "free": {"budget": 5, "fallback": "own_row"},
}


def check(m: RequestMetrics) -> None:
    """What holds for every request and for every sum of requests."""
    assert m.hits + m.misses == m.rounds
    assert sum(m.miss_reasons.values()) == m.misses
    assert tuple(m.miss_reasons) == MISS_REASONS
    assert sum(m.rounds_by_accepted) <= m.rounds
    assert sum(m.hits_by_accepted) == m.hits
    assert all(hits <= rounds for hits, rounds in zip(m.hits_by_accepted, m.rounds_by_accepted, strict=True))
    for kind in ("accepted", "verified"):
        pair = [getattr(m, f"{name}_{kind}_per_position") for name in ("hit", "miss")]
        whole = getattr(m, f"{kind}_per_position")
        padded = [[*counts, *[0] * (len(whole) - len(counts))] for counts in pair]
        assert [sum(counts) for counts in zip(*padded, strict=True)] == whole
    assert m.hits_after_hit <= m.rounds_after_hit
    assert m.hits_after_miss <= m.rounds_after_miss
    assert m.target_wait_seconds == pytest.approx(m.wait_depth_seconds + m.wait_pending_seconds + m.handover_seconds)


def total(parts: list[RequestMetrics], name: str) -> Any:
    return sum(getattr(m, name) for m in parts)


@pytest.mark.parametrize("name", ENGINES)
def test_figures_add_up(name: str, tmp_path: Path) -> None:
    log = tmp_path / "rounds.jsonl"
    with opened("ssd", "float32", "loopback", lookahead=3, round_log=log, **ENGINES[name]) as llm:
        done = [c.metrics for t in (0.0, 1.0) for c in llm.generate(PROMPTS, params(t))]
        totals = llm.statistics()["totals"]
        draft = llm.statistics()["draft"]
    assert total(done, "hits") > 0
    assert total(done, "misses") > 0
    for m in done:
        check(m)
        assert m.rounds_after_hit + m.rounds_after_miss == m.rounds - 1
        assert sum(m.rounds_by_accepted) == m.rounds
    for counter in ("rounds", "accepted", "hits", "misses", "branches", "hit_depth_sum", "hits_after_hit"):
        assert totals[counter] == total(done, counter)
    for reason in MISS_REASONS:
        assert totals["miss_reasons"][reason] == sum(m.miss_reasons[reason] for m in done)
    assert set(RATES) <= set(totals)
    assert draft["rows_run"] >= draft["steps"] > 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == totals["rounds"]
    assert sum(line["hit"] for line in lines) == totals["hits"]
    assert {line["request"]: line["rows"] <= 5 for line in lines} == dict.fromkeys(range(1, 11), True)
    if name in ("listed", "rejection"):
        previous: dict[int, int] = {}
        for line in lines:
            if line["k"] == 0 and previous.get(line["request"]):  # after a rejection of the first token: F_0 is 0
                assert (line["hit"], line["reason"]) == (False, "k_not_covered")
            previous[line["request"]] = line["proposed"]


def reasons(**options: Any) -> dict[str, int]:
    """Reasons of misses of one request."""
    with opened("ssd", "float32", "loopback", lookahead=3, **options) as llm:
        m = llm.generate(PROMPTS[0], params(0.0))[0].metrics
        check(m)
        return {reason: count for reason, count in m.miss_reasons.items() if count}


def test_no_branch_for_this_token() -> None:
    found = reasons(drafter="miss", pacing="lockstep", fan_out=[2, 0, 0, 0], fallback="random")
    assert set(found) <= {"token_not_covered", "k_not_covered", "unused"}
    assert found["token_not_covered"] > 5


@pytest.mark.parametrize("verification", ["shared_noise", "rejection"])
def test_no_branch_for_this_k(verification: str) -> None:
    found = reasons(
        drafter="miss", pacing="lockstep", fan_out=[0, 0, 0, 2], verification=verification, fallback="random"
    )
    assert set(found) <= {"k_not_covered", "token_not_covered", "unused"}  # without a proposal, k = 0 has F_K
    assert found["k_not_covered"] > 5


def test_a_draft_that_is_late_is_not_ready() -> None:
    with opened("ssd", "float32", "loopback", lookahead=3, budget=5, drafter="hit", fallback="none") as llm:
        llm._engine.port.steps_per_round = 0  # type: ignore[union-attr]
        m = llm.generate(PROMPTS[0], params(0.0))[0].metrics
    assert m.miss_reasons["not_ready"] == m.misses == m.rounds > 0


def test_a_row_without_a_draft_says_so() -> None:
    with opened("ssd", "float32", "loopback", lookahead=3, budget=5, drafter="hit") as llm:
        llm.configure(lookahead=0)
        m = llm.generate(PROMPTS[0], params(0.0))[0].metrics
        assert m.miss_reasons["no_draft"] == m.misses == m.rounds > 0
        llm._engine.target.attach(None)  # type: ignore[union-attr]
        m = llm.generate(PROMPTS[0], params(0.0))[0].metrics
        assert m.miss_reasons["no_draft"] == m.misses == m.rounds > 0
        check(m)


def test_without_a_cache_nothing_is_counted() -> None:
    for mode in ("ar", "sd"):
        with opened(mode, "float32", "loopback", lookahead=3 if mode == "sd" else 0) as llm:
            m = llm.generate(PROMPTS[0], params(0.0))[0].metrics
            assert m.hit_rate is m.budget_used is None
            assert m.rounds_by_accepted == []
            assert llm.statistics()["totals"]["hit_rate"] is None
            with pytest.raises(ConfigError, match="open it with trace=True"):
                llm.trace()


@pytest.mark.processes
def test_a_trace_of_two_processes_is_on_one_clock() -> None:
    sizes = {"max_model_len": 128, "page_size": 8, "max_batch": 2}
    target, draft = "toy:llama?seed=1&vocab=48&layers=2", "toy:llama?seed=1&vocab=48&layers=2&noise=0.15"
    with LLM(target, draft, mode="ssd", lookahead=3, budget=5, trace=True, dtype="float32", **sizes) as llm:
        [done] = llm.generate([1, 2, 3], params(0.0, max_tokens=40))
        traces = llm.trace()
        assert llm.trace()[0].events == ()
    check(done.metrics)
    assert [trace.name for trace in traces] == ["target", "draft"]
    assert traces[0].pid != traces[1].pid
    events = chrome_trace(traces)["traceEvents"]
    sent = {event["id"]: event["ts"] for event in events if event["ph"] == "s"}
    heard = {event["id"]: event["ts"] for event in events if event["ph"] == "f"}
    assert len(sent) == len(heard) > 5
    assert all(heard[arrow] >= sent[arrow] for arrow in sent)
    marks = [event["name"] for event in events if event["ph"] == "i"]
    assert marks.count("hit") == done.metrics.hits
    assert len(marks) == done.metrics.rounds
    found = shares(traces)
    assert {"prefill", "verify", "draw", "look-up", "report"} <= set(found["target"]["kinds"])
    assert {"prefill", "news"} <= set(found["draft"]["kinds"])
