"""Gears and planned sizes as settings of a proposer, with times that are given."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from saguaro.algorithm import waiting
from saguaro.engine.metrics import Estimates
from saguaro.engine.proposing import Proposer
from saguaro.engine.settings import Settings
from saguaro.engine.shifting import Shifting, gear_of, in_gear
from saguaro.theory.rates import StepTimes
from saguaro.transport.base import DraftStatus

SSD = Settings(
    lookahead=4, budget=6, fan_out="ranked", branches=True, fallback="ngram", gears=("ar", "sd", "ssd"),
    auto_lookahead=True, auto_budget=True,
)  # fmt: skip
VERIFY = {1: 0.07, 2: 0.07, 4: 0.075, 8: 0.09, 16: 0.18}
TIMES = StepTimes.of(VERIFY, {1: 0.01, 2: 0.012, 12: 0.03})


class Port:
    """A draft that has caught up and says nothing."""

    local = False

    def __init__(self) -> None:
        self.sent: list[object] = []

    def send(self, message: object) -> bool:
        self.sent.append(message)
        return True

    def status(self) -> DraftStatus:
        return DraftStatus(0.012, 0.0, 0.0, 0.0, 0.01)

    def caught_up(self, row: int, request: int) -> bool:
        return True


@pytest.fixture
def opened():
    def make(settings: Settings = SSD, learn: StepTimes | None = TIMES) -> tuple[Shifting, Port]:
        estimates = Estimates(16)
        proposer = Proposer(estimates, 100, settings)
        port = Port()
        proposer.attach(port)
        shifting = Shifting(proposer, estimates)
        if learn is not None:
            shifting.learn(learn)
        return shifting, port

    return make


def rows(count: int, *, admitted: bool = True) -> list:
    return [SimpleNamespace(admitted=admitted, tokens=[0] * 50, drafted=0, row=i, request=i) for i in range(count)]


def run(shifting: Shifting, rounds: int, seconds: dict[str, float], *, accepted: int = 4, running: int = 1) -> None:
    for _ in range(rounds):
        settings = shifting.proposer.settings
        depth = min(settings.lookahead, 4)
        if depth:
            shifting.estimates.verified(depth, min(depth, accepted))
        shifting.ended([(depth, 0)] * running, seconds[gear_of(settings)], rows(running))


def test_a_gear_is_nothing_but_settings() -> None:
    assert gear_of(SSD) == "ssd"
    assert gear_of(in_gear("ar", SSD)) == "ar"
    assert gear_of(in_gear("sd", SSD)) == "sd"
    assert in_gear("sd", SSD).fallback == "neural"
    assert in_gear("sd", replace(SSD, tree=7)).tree == 0  # its draft is elsewhere
    assert in_gear("sd", Settings(lookahead=4, tree=7)).tree == 7
    assert in_gear("ssd", SSD) == in_gear(None, SSD) == SSD


def test_a_draft_that_does_not_pay_becomes_idle_and_the_draft_is_told(opened) -> None:
    shifting, port = opened()
    run(shifting, 200, {"ssd": 0.12, "sd": 0.11, "ar": 0.07}, accepted=0)
    assert gear_of(shifting.proposer.settings) == "ar"
    assert port.sent[-1].lookahead == 0
    assert shifting.estimates.beside is False
    assert shifting.statistics()["gears"]["gear"] == "ar"


def test_nothing_changes_without_times_in_lockstep_or_when_the_mode_is_fixed(opened) -> None:
    slow = {"ssd": 10.0, "sd": 1.0, "ar": 0.01}
    lockstep = Settings(**{name: getattr(SSD, name) for name in SSD.__slots__} | {"lockstep": True})
    fixed = Settings(lookahead=4, budget=6, fan_out="ranked", branches=True)
    for settings, learn in ((SSD, None), (lockstep, TIMES), (fixed, TIMES)):
        shifting, _ = opened(settings, learn)
        run(shifting, 100, slow, accepted=0)
        assert gear_of(shifting.proposer.settings) == "ssd"


def test_who_fixes_a_slow_mode_is_told_once(opened) -> None:
    shifting, _ = opened(Settings(lookahead=4, budget=6, fan_out="ranked", branches=True))
    run(shifting, 600, {"ssd": 0.12}, accepted=0)
    [warning] = shifting.warnings
    assert "'ssd' gives 0." in warning
    good, _ = opened(Settings(lookahead=4, budget=6, fan_out="ranked", branches=True))
    run(good, 600, {"ssd": 0.12})
    assert not good.warnings


def test_rows_that_have_no_draft_say_nothing_about_gears(opened) -> None:
    shifting, _ = opened()
    for _ in range(100):
        shifting.ended([(0, 0)], 10.0, rows(1, admitted=False))
    assert shifting.gears.summary()["speedup"] == {}
    assert gear_of(shifting.proposer.settings) == "ssd"


def test_lookahead_follows_acceptance_unless_it_was_given(opened) -> None:
    even = {"ssd": 0.08, "sd": 0.2, "ar": 0.2}
    shifting, _ = opened()
    run(shifting, 130, even)
    assert shifting.base.lookahead > 4
    assert shifting.base.budget >= shifting.base.lookahead
    fixed = Settings(**{name: getattr(SSD, name) for name in SSD.__slots__} | {"auto_lookahead": False})
    shifting, _ = opened(fixed)
    run(shifting, 130, even)
    assert shifting.base.lookahead == 4


def test_the_waiting_rule_counts_the_rows_beside() -> None:
    """Where 16 rows take twice the time of 8, a proposal pays alone and does not in a batch of 8."""
    estimates = Estimates(16)
    estimates.measured(VERIFY, beside=False)

    def depth(count: int) -> int:
        seconds = [estimates.verify_seconds(count - 1 + d + 1) for d in range(5)]
        expected = waiting.expected_tokens(estimates.acceptance(4))
        return waiting.choose_depth([0.0] * 5, seconds, expected, count / estimates.verify_seconds(count))

    assert depth(1) == 4
    assert depth(8) == 0


def test_settings_by_hand_keep_the_gear_where_it_is_allowed(opened) -> None:
    shifting, _ = opened()
    run(shifting, 200, {"ssd": 0.12, "sd": 0.11, "ar": 0.07}, accepted=0)
    longer = replace(SSD, lookahead=3, auto_lookahead=False)
    shifting.configure(longer)
    assert gear_of(shifting.proposer.settings) == "ar"
    shifting.configure(replace(longer, gears=("sd",)))
    assert gear_of(shifting.proposer.settings) == "sd"
    assert shifting.proposer.settings.lookahead == 3


def test_settings_by_hand_keep_a_lookahead_that_was_planned_anew(opened) -> None:
    shifting, _ = opened()
    shifting.configure(SSD)
    assert shifting.base.lookahead == SSD.lookahead
    shifting._planned, shifting.base = (7, 9), replace(SSD, lookahead=7, budget=9)
    shifting.configure(replace(SSD, fallback="none"))
    assert (shifting.base.lookahead, shifting.base.budget, shifting.base.fallback) == (7, 9, "none")
    shifting.configure(replace(SSD, lookahead=2, auto_lookahead=False))
    assert shifting.base.lookahead == 2
