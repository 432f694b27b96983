"""Gears in worlds with made-up times: what pays is found, trials cost little, and what does not pay is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from saguaro.engine.gears import PATIENCE_ROUNDS, Gears, Round, bucket_name, bucket_of
from saguaro.engine.metrics import Estimates
from saguaro.theory.acceptance import expected_by_depth

DEPTH = 4


@dataclass
class World:
    """A machine on which a pass of n rows takes `one + more * (n - 1)` seconds and the draft `step` a token.

    `slow`: how many times longer a pass takes beside a draft at work. Tokens come at their expected number, and the
    engine's own estimate of acceptance follows the texts.
    """

    acceptance: float = 0.85
    one: float = 0.07
    more: float = 0.001
    step: float = 0.01
    slow: float = 1.2
    hit: float = 0.8
    ready: Callable[[int], bool] = lambda number: True
    wrong: float = 1.0  # times what theory promises of ssd
    gears: tuple[str, ...] = ("ar", "sd", "ssd")
    start: str = "ssd"
    seconds: float = 0.0
    tokens: float = 0.0
    used: dict[str, int] = field(default_factory=dict)
    rounds: int = 0

    def __post_init__(self) -> None:
        self.estimates = Estimates(16)
        self.chooser = Gears(self.gears, start=self.start, promise=self.promise, unit=self.passing)

    def passing(self, rows: int) -> float:
        return self.one + self.more * (rows - 1)

    def round_seconds(self, gear: str, rows: int) -> float:
        if gear == "ar":
            return self.passing(rows)
        drafting = DEPTH * self.step * (1 + 0.1 * (rows - 1))
        verify = self.passing(rows * (DEPTH + 1))
        if gear == "sd":
            return verify + drafting
        return self.slow * verify + (1 - self.hit**rows) * drafting

    def rate(self, gear: str, rows: int, acceptance: float) -> float:
        tokens = 1.0 if gear == "ar" else expected_by_depth([acceptance] * DEPTH)[-1]
        return rows * tokens / self.round_seconds(gear, rows)

    def promise(self, gear: str, rows: int) -> float:
        [known] = self.estimates.acceptance(1)
        return self.rate(gear, rows, known) * (self.wrong if gear == "ssd" else 1.0)

    def best(self, rows: int = 1) -> float:
        return max(self.rate(gear, rows, self.acceptance) for gear in self.gears)

    def run(self, rounds: int, rows: int = 1, backlog: float = 0.0) -> float:
        """Tokens a second of so many rounds."""
        before = (self.tokens, self.seconds)
        for _ in range(rounds):
            gear = self.chooser.gear
            depth = 0 if gear == "ar" else DEPTH
            seconds = self.round_seconds(gear, rows)
            self.used[gear] = self.used.get(gear, 0) + 1
            self.seconds += seconds
            self.tokens += seconds * self.rate(gear, rows, self.acceptance)
            if depth:
                self.observe(depth)
            self.rounds += 1
            ready = gear == "ar" or self.ready(self.rounds)
            expected = expected_by_depth(self.estimates.acceptance(16))
            changed = self.chooser.ended(Round([depth] * rows, 0, seconds, ready, backlog), expected)
            if gear == "ar" and changed not in (None, "ar"):
                self.estimates.unsure()
        return (self.tokens - before[0]) / (self.seconds - before[1])

    def observe(self, depth: int) -> None:
        """A proposal whose acceptance follows the text's rate as evenly as whole tokens can."""
        self._carry = getattr(self, "_carry", 0.0) + expected_by_depth([self.acceptance] * depth)[-1] - 1
        accepted = min(depth, int(self._carry))
        self._carry -= accepted
        self.estimates.verified(depth, accepted)


def test_a_good_draft_beside_the_target_is_kept() -> None:
    world = World()
    assert world.run(6000) > 0.99 * world.best()
    assert world.chooser.gear == "ssd"
    assert {"ar", "sd"} <= set(world.used)  # the others were tried


def test_a_poor_draft_costs_less_than_three_hundredths_of_ar() -> None:
    world = World(acceptance=0.12)
    ar = world.rate("ar", 1, 0.12)
    assert world.run(2000) > 0.97 * ar
    assert world.run(5000) > 0.99 * ar
    assert world.chooser.gear == "ar"


@pytest.mark.parametrize("one", [0.075, 0.06])
def test_ar_is_no_unknown_that_has_to_promise_much(one: float) -> None:
    """Speculation that gives .94 or .97 of AR is left once its acceptance is known: what AR gives is measured."""
    world = World(acceptance=0.3, gears=("ar", "ssd"), slow=1.3, one=one)
    ar = world.rate("ar", 1, 0.3)
    assert 0.9 < world.rate("ssd", 1, 0.3) / ar < 0.98
    world.run(300)
    assert world.chooser.gear == "ar"
    assert world.run(1000) > 0.985 * ar  # with trials of ssd in it


def test_speculation_comes_back_when_it_pays_again() -> None:
    world = World(acceptance=0.1)
    world.run(3000)
    assert world.chooser.gear == "ar"
    world.acceptance = 0.9
    world.run(4000)
    assert world.chooser.gear == "ssd"
    world.acceptance = 0.1
    world.run(400)
    assert world.chooser.gear == "ar"


def test_a_large_batch_steps_back_and_a_small_one_returns() -> None:
    world = World(more=0.02, slow=1.1, hit=0.95)  # a row costs a quarter of a pass
    world.run(300)
    assert world.chooser.gear == "ssd"
    world.run(60, rows=8)
    assert world.chooser.gear == "ar"
    assert world.run(3000, rows=8) > 0.98 * world.rate("ar", 8, 0.85)
    world.run(30)
    assert world.chooser.gear == "ssd"


def test_what_is_measured_counts_more_than_what_theory_promises() -> None:
    world = World(slow=2.0, hit=0.3, wrong=3.0)  # the two devices share a memory, and theory does not know it
    world.run(500)
    assert world.chooser.gear == "sd"
    assert world.run(10000) > 0.985 * world.best()


def test_trials_take_less_than_a_hundredth() -> None:
    for world in (World(), World(acceptance=0.12), World(slow=2.0)):
        world.run(1000)
        best = world.best()
        assert world.run(8000) > 0.99 * best
        assert world.chooser.trials > 2


def test_gears_that_are_not_allowed_are_never_used() -> None:
    world = World(gears=("ar", "sd"), start="sd")
    world.run(5000)
    assert set(world.used) == {"ar", "sd"}
    alone = World(gears=("ssd",), acceptance=0.05)
    alone.run(500)
    assert set(alone.used) == {"ssd"}


def test_the_same_rounds_lead_to_the_same_gears() -> None:
    one, other = World(acceptance=0.5), World(acceptance=0.5)
    for rows in (1, 3, 8, 2):
        one.run(200, rows)
        other.run(200, rows)
    assert one.used == other.used
    assert one.chooser.summary() == other.chooser.summary()


def test_a_trial_waits_for_a_draft_that_catches_up_and_not_for_ever() -> None:
    world = World(acceptance=0.12)
    world.run(500)
    assert world.chooser.gear == "ar"
    world.ready = lambda number: False
    before = world.chooser.trials
    while world.chooser.trials == before:
        world.run(1)
    world.run(PATIENCE_ROUNDS)
    assert world.chooser.gear != "ar"
    world.run(3)
    assert world.chooser.gear == "ar"


def test_a_long_backlog_puts_a_trial_off() -> None:
    trials = []
    for backlog in (0.0, 60.0):
        world = World(acceptance=0.12, gears=("ar", "sd"), start="sd")
        world.run(300)
        assert world.chooser.gear == "ar"
        before = world.chooser.trials
        world.run(4000, backlog=backlog)
        trials.append(world.chooser.trials - before)
    assert trials[0] > trials[1] == 0


def test_certain_tokens_count_whatever_the_draft_is_worth() -> None:
    gears = Gears(("ar", "sd"), start="ar", promise=lambda gear, rows: 1.0, unit=lambda rows: 1.0)
    for _ in range(50):
        gears.ended(Round([0, 0], 6, 1.0), [1.0, 1.1])
    assert gears.worth("ar", 2) == pytest.approx(4.0)  # a token and three certain ones for each row and pass


def test_a_round_that_was_held_up_counts_little() -> None:
    gears = Gears(("ar",), start="ar", promise=lambda gear, rows: 1.0, unit=lambda rows: 0.1)
    for seconds in (*[0.1] * 20, 100.0, *[0.1] * 5):
        gears.ended(Round([0], 0, seconds), [1.0])
    assert gears.worth("ar", 1) > 0.85


def test_what_is_known_outlives_a_gear_that_was_not_allowed() -> None:
    world = World()
    world.run(100)
    known = world.chooser.worth("ssd", 1)
    world.chooser.allow(("sd",))
    assert world.chooser.gear == "sd"
    world.run(50)
    world.chooser.allow(("ar", "sd", "ssd"))
    assert world.chooser.gear == "sd"
    assert world.chooser.worth("ssd", 1) == pytest.approx(known, rel=0.1)


def test_buckets() -> None:
    assert [bucket_of(rows) for rows in (1, 2, 3, 4, 5, 8, 9, 16)] == [0, 1, 2, 2, 3, 3, 4, 4]
    assert [bucket_name(bucket) for bucket in range(4)] == ["1", "2", "3-4", "5-8"]
