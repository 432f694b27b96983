"""Changes gear and lookahead while an engine runs: what `gears` decides becomes the proposer's settings.

A gear is nothing but settings: `ar` is a lookahead of 0 (the draft is told of outcomes and does nothing), `sd` has no
branches, `ssd` is what the plan says. What the user fixed stays fixed. Without measured times (`learn`) nothing ever
changes: over loopback the order of things must not depend on a clock. Must not know: channels, models, clocks.
Tests: tests/engine/test_shifting.py, tests/lossless/test_gears.py.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence as Rows
from dataclasses import replace
from typing import Any

from saguaro.engine.adapt import DEEPER
from saguaro.engine.gears import Gears, Round
from saguaro.engine.metrics import Estimates
from saguaro.engine.proposing import Proposer
from saguaro.engine.sequence import Sequence
from saguaro.engine.settings import Settings
from saguaro.theory.acceptance import expected_by_depth
from saguaro.theory.rates import MAX_PLANNED_LOOKAHEAD, StepTimes, planned, promise, sd_rate, ssd_rate
from saguaro.theory.step_times import time_for

log = logging.getLogger(__name__)

REPLAN_ROUNDS = 64
REPLAN_GAIN = 1.03
"""A new lookahead must promise so many times what the present one does: each change costs the branches under way."""
DEEPEN_BY = 2
"""A lookahead that is so much deeper is taken without a promise: it costs those branches alone, and what a deeper
proposal brings on easy text is not in the mean acceptance that promises are made with.
"""
REMOTE_SHARE = 0.15
"""Part of the time that a draft on its own device takes to catch up which the target feels."""
WARN_ROUNDS, WARN_BELOW = 256, 0.95


def in_gear(gear: str | None, base: Settings) -> Settings:
    """The settings of a gear; None and the gear that the settings describe leave them as they are."""
    if gear == "ar":
        return replace(base, lookahead=0, branches=False, fan_out="none", budget=0, tree=0)
    if gear == "sd" and base.branches:  # its draft works elsewhere, and grows no trees
        return replace(base, branches=False, fan_out="none", budget=0, fallback="neural", tree=0)
    return base


def gear_of(settings: Settings) -> str:
    """The gear that settings describe."""
    if settings.lookahead == 0:
        return "ar"
    return "ssd" if settings.branches else "sd"


class Shifting:
    """The gears of one target."""

    def __init__(self, proposer: Proposer, estimates: Estimates) -> None:
        self.proposer = proposer
        self.estimates = estimates
        self.base = proposer.settings
        self._planned: tuple[int, int] | None = None  # lookahead and budget, once they were planned anew
        self.gears: Gears | None = None
        self.warnings: list[str] = []
        self._measured: StepTimes | None = None
        self._rounds = 0
        self._apply(self._fixed())

    # -- settings -----------------------------------------------------------------------------------------------------

    def learn(self, times: StepTimes) -> None:
        """Step times as measured at start: from now on gears may change."""
        self._measured = times
        self.estimates.measured(times.verify_alone, beside=False)
        self.estimates.measured(times.verify_beside, beside=True)
        self._open()

    def configure(self, settings: Settings) -> None:
        """New settings by hand. The gear stays, where it is still allowed, and so does what was planned anew."""
        if self._planned is not None and settings.auto_lookahead:
            lookahead, budget = self._planned
            settings = replace(
                settings, lookahead=lookahead, budget=budget if settings.auto_budget else settings.budget
            )
        self.base = settings
        self._open()

    def _fixed(self) -> str | None:
        return self.base.gears[0] if len(self.base.gears) == 1 else None

    def _open(self) -> None:
        allowed = self.base.gears or (gear_of(self.base),)
        if self._measured is None or self.base.lockstep:
            self.gears = None
        elif self.gears is None:
            start = max(allowed, key=lambda gear: self._promise(gear, 1))
            self.gears = Gears(allowed, start=start, promise=self._promise, unit=self._unit)
        else:
            self.gears.allow(allowed)
        self._apply(self.gears.gear if self.gears is not None and len(allowed) > 1 else self._fixed())

    def _apply(self, gear: str | None) -> None:
        before = gear_of(self.proposer.settings)
        settings = in_gear(gear, self.base)
        if before == "ar" and gear_of(settings) != "ar" and self._rounds:
            self.estimates.unsure()
        self.estimates.beside = settings.branches
        if settings != self.proposer.settings:
            self.proposer.configure(settings)

    # -- rounds -------------------------------------------------------------------------------------------------------

    def ended(self, depths: Rows[tuple[int, int]], seconds: float, running: Rows[Sequence]) -> None:
        """A round without prefill has ended and the next proposals are made.

        Args:
            depths: of each row, how many tokens were proposed, and how many of these were certain.
            seconds: verification and waiting.
            running: the rows that go on.
        """
        gears, port = self.gears, self.proposer.port
        speculating = [s for s in running if s.admitted]
        if gears is None or port is None or not speculating or not depths:
            return
        self._rounds += 1
        idle = gears.gear == "ar"
        backlog = sum(len(s.tokens) - s.drafted for s in speculating) if idle else 0
        if not idle:
            for s in speculating:
                s.drafted = len(s.tokens)
        r = Round(
            depths=[proposed - certain for proposed, certain in depths],
            certain=sum(certain for _, certain in depths),
            seconds=seconds,
            ready=idle or all(port.caught_up(s.row, s.request) for s in speculating),
            backlog=backlog * self._catch_up_seconds(local=port.local),
        )
        expected = expected_by_depth(self.estimates.acceptance(2 * MAX_PLANNED_LOOKAHEAD))
        gear = gears.ended(r, expected)
        if gear is not None:
            self._apply(gear)
        if self._rounds % REPLAN_ROUNDS == 0:
            self._replan(gears)
            self._warn_if_slow(gears, r.rows)

    def _catch_up_seconds(self, *, local: bool) -> float:
        """Seconds that the rows lose for each token which the draft has to take in."""
        assert self._measured is not None
        most = max(self._measured.step_alone)
        return (1.0 if local else REMOTE_SHARE) * self._measured.step_alone[most] / most

    def _replan(self, gears: Gears) -> None:
        """A lookahead for the acceptance, hit rate and times of now; the waiting rule goes on deciding below it.

        It is planned for one row: with more rows the waiting rule finds fewer tokens worth their rows.
        """
        if not self.base.auto_lookahead or gears.gear == "ar":
            return
        hit_rate, now = self.estimates.hit_rate, self.base.lookahead
        times, acceptance = self._times(), self.estimates.acceptance(max(MAX_PLANNED_LOOKAHEAD, now))
        best = planned(gears.gear, times, acceptance, hit_rate, slack=DEEPER)
        present = (
            sd_rate(times, acceptance, lookahead=now)
            if gears.gear == "sd"
            else ssd_rate(times, acceptance, hit_rate, lookahead=now)
        )
        better = best.lookahead != now and best.rate > REPLAN_GAIN * present
        if better or best.lookahead >= now + DEEPEN_BY:
            budget = max(self.base.budget, best.lookahead) if self.base.auto_budget else self.base.budget
            self._planned = best.lookahead, budget
            self.base = replace(self.base, lookahead=best.lookahead, budget=budget)
            self._apply(gears.gear)

    def _warn_if_slow(self, gears: Gears, rows: int) -> None:
        """Who fixed the mode gets it, and is told when it is slower than no draft at all."""
        if len(gears.allowed) > 1 or gears.gear == "ar" or self.warnings or self._rounds < WARN_ROUNDS:
            return
        worth = gears.worth(gears.gear, rows)
        if worth < WARN_BELOW:
            self.warnings.append(
                f"mode {gears.gear!r} gives {worth:.2f} times the tokens a second that the target alone would give; "
                f"mode 'auto' would step back."
            )
            log.warning(self.warnings[-1])

    # -- what theory says ---------------------------------------------------------------------------------------------

    def _unit(self, rows: int) -> float:
        assert self._measured is not None
        return time_for(self._measured.verify_alone, rows)

    def _promise(self, gear: str, rows: int) -> float:
        acceptance = self.estimates.acceptance(MAX_PLANNED_LOOKAHEAD)
        return promise(gear, self._times(), acceptance, self.estimates.hit_rate, rows=rows).rate

    def _times(self) -> StepTimes:
        """Step times as they are now: the shapes of the start, times what was learnt since."""
        assert self._measured is not None
        port = self.proposer.port
        single = port.status().single_seconds if port is not None else 0.0
        scale = single / time_for(self._measured.step_alone, 1) if single else 1.0
        return StepTimes(
            verify_alone=self.estimates.times[False].known(),
            verify_beside=self.estimates.times[True].known(),
            step_alone={rows: scale * seconds for rows, seconds in self._measured.step_alone.items()},
            step_beside=self._measured.step_beside,
        )

    def statistics(self) -> dict[str, Any]:
        """The present gear and what each is worth."""
        settings = self.proposer.settings
        found: dict[str, Any] = {
            "gear": gear_of(settings),
            "lookahead": self.base.lookahead,
            "budget": self.base.budget,
        }
        if self.gears is not None:
            found |= self.gears.summary()
        return {"gears": found, "hit_rate": self.estimates.hit_rate if settings.branches else None}
