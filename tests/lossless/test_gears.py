"""Tokens are the target's whatever the gears do: changed between any two rounds, beside rows that want no draft."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.lossless.conftest import PROMPTS, opened, params

from saguaro import SamplingParams


class Forced:
    """Changes gear at fixed rounds, whatever they took."""

    allowed = ("ar", "sd", "ssd")

    def __init__(self, order: str) -> None:
        self.gear = "ssd"
        self._order = itertools.cycle(order.split())
        self.seen: set[str] = set()

    def ended(self, r, expected) -> str | None:
        self.seen.add(self.gear)
        before, self.gear = self.gear, next(self._order)
        return None if self.gear == before else self.gear

    def summary(self) -> dict:
        return {}


def each_params() -> list[SamplingParams]:
    every = [params(temperature, max_tokens=20) for temperature in (0.0, 0.9, 0.7, 0.0, 1.0)]
    return [*every[:3], replace(every[3], speculation=0), replace(every[4], speculation=1)]


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    with opened("ar", "float32", "loopback") as llm:
        return [each.token_ids for each in llm.generate(PROMPTS, each_params())]


@pytest.mark.parametrize("drafter", ["hit", "miss", "mixed", None])
def test_tokens_are_the_targets_in_any_order_of_gears(drafter, alone):
    with opened("auto", "float32", "loopback", drafter=drafter) as llm:
        worker = llm._engine.target
        worker.shifting.learn(_times())
        for order in ("sd ar ssd ssd", "ar ar sd", "ssd ar"):
            gears = worker.shifting.gears = Forced(order)
            got = llm.generate(PROMPTS, each_params())
            assert [each.token_ids for each in got] == alone
            assert gears.seen == set(order.split()) | {"ssd"}
            assert got[3].metrics.drafted == 0
            assert max(len(each.metrics.accepted_per_position) for each in got[4:]) <= 1


def test_without_times_loopback_never_changes_gear():
    with opened("auto", "float32", "loopback", drafter="miss") as llm:
        [done] = llm.generate(PROMPTS[:1], params(0.0, max_tokens=60))
        assert done.metrics.hits + done.metrics.misses == done.metrics.rounds
        assert llm.statistics()["gears"]["gear"] == "ssd"


def test_only_rounds_that_looked_an_outcome_up_are_hits_or_misses():
    with opened("auto", "float32", "loopback", drafter="hit") as llm:
        llm.configure(mode="sd")
        [done] = llm.generate(PROMPTS[:1], params(0.0))
        assert done.metrics.hit_rate is None
        assert done.metrics.accepted > 0
        llm.configure(mode="ar")
        [done] = llm.generate(PROMPTS[:1], params(0.0))
        assert done.metrics.drafted == 0
        llm.configure(mode="ssd")
        [done] = llm.generate(PROMPTS[:1], params(0.0))
        assert done.metrics.hits + done.metrics.misses == done.metrics.rounds
        assert done.metrics.hits > 0


def _times():
    from saguaro.theory.rates import StepTimes

    return StepTimes.of({1: 1.0, 8: 1.0}, {1: 0.1, 12: 0.2})
