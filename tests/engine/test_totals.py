"""All requests of an engine in one: what counts, and what does not any more."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from saguaro.algorithm.options import Sampling
from saguaro.engine.misses import Lookup
from saguaro.engine.sequence import RoundReport, Submission
from saguaro.engine.target import Failure
from saguaro.engine.totals import Totals


def plan(mode: str = "ssd", log: Path | None = None) -> Any:
    device = SimpleNamespace(device=SimpleNamespace(text="cpu:0"))
    config = SimpleNamespace(round_log=None if log is None else str(log), verification="shared_noise")
    return SimpleNamespace(mode=mode, config=config, target=device, draft=device)


def submission(number: int, *, choice: int = 0, lookahead: int | None = None) -> Submission:
    return Submission(number, (1, 2, 3), Sampling(choice=choice), 8, frozenset(), lookahead=lookahead)


def round_(source: str, finish: str | None = None) -> RoundReport:
    lookup = Lookup(0, 4, None if source == "hit" else "not_ready", 3)
    return RoundReport([4, 5], 2, 1, source, 2, 0.0, 0.1, 0.0, 1.0, finish, looked=True, lookup=lookup)


PREFILL = RoundReport([4], 0, 0, "prefill", 0, 0.0, 0.1, 0.0, 0.5)


def test_requests_add_up_and_what_was_aborted_or_failed_stops_counting() -> None:
    totals = Totals(plan())
    for number in (1, 2, 3):
        totals.submitted(submission(number))
    totals.took([(1, PREFILL), (2, PREFILL), (3, PREFILL), (1, round_("hit")), (2, round_("neural"))])
    totals.left(1)
    totals.took([(1, round_("hit")), Failure(2, "SaguaroError", "no."), (2, round_("hit")), (3, round_("hit", "stop"))])
    totals.took([(3, round_("hit")), (9, round_("hit"))])
    summary = totals.summary()
    assert (summary["requests"], summary["rounds"], summary["hits"], summary["misses"]) == (3, 3, 2, 1)
    assert summary["miss_reasons"]["not_ready"] == 1
    assert summary["hit_rate"] == pytest.approx(2 / 3)
    assert summary["prefill_tokens"] == 9
    assert "time_to_first_token" not in summary
    json.dumps(summary)


@pytest.mark.parametrize(("mode", "lookahead"), [("sd", None), ("ar", None), ("ssd", 0)])
def test_requests_that_look_nothing_up_have_no_hits(mode: str, lookahead: int | None) -> None:
    totals = Totals(plan(mode))
    totals.submitted(submission(1, lookahead=lookahead))
    totals.took([(1, PREFILL), (1, round_("neural"))])
    assert (totals.metrics.rounds, totals.metrics.hit_rate) == (1, None)


def test_the_log_has_a_line_a_round_and_none_for_prefill(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    totals = Totals(plan(log=path))
    totals.submitted(submission(1, choice=2))
    totals.took([(1, PREFILL), (1, round_("hit")), (1, round_("neural", "length"))])
    totals.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["request"], line["index"], line["hit"], line["reason"]) for line in lines] == [
        (1, 2, True, None), (1, 2, False, "not_ready"),
    ]  # fmt: skip
    assert {line["engine"] for line in lines} == {"ssd shared_noise on cpu:0 + cpu:0"}
