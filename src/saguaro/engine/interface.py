"""What both engines have in common: requests in, events out, settings that may change while they run.

Not thread-safe: one thread at a time, but for the alarm that ends a `poll`; `driver.py` is that thread for callers that
have several. Must not know: processes, channels. Tests: tests/engine/.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from saguaro.algorithm.rounds import EndedRound
from saguaro.config import MODES, NO_TREES, TREE_MODES, check_changes, check_sizes, fan_out_lists
from saguaro.drafting.fallbacks import FALLBACKS
from saguaro.engine.adapt import plan_sd, plan_ssd
from saguaro.engine.alarm import Alarm
from saguaro.engine.build import settings_of, tree_settings
from saguaro.engine.eagle3 import NO_TREE
from saguaro.engine.resolve import Plan, check_fan_out, with_measured
from saguaro.engine.sequence import Submission
from saguaro.engine.settings import Settings
from saguaro.engine.target import Event, Failure
from saguaro.engine.totals import Totals
from saguaro.engine.trace import ProcessTrace
from saguaro.errors import ConfigError
from saguaro.theory.rates import MAX_PLANNED_LOOKAHEAD, StepTimes

VERIFY_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
ALONE_ROWS = (1, 2, 4, 8)
MANY_ROWS = (12, 16, 24)
"""Rows of large batches; what lies beyond goes on by the last slope."""
STEP_ROWS = (1, 2, 4, 6, 8, 12)
MEASURE_CONTEXT = 128
MEASURE_REPEATS, MANY_REPEATS = 30, 1000
MEASURE_SECONDS = 3.0
CONFIGURABLE = ("mode", "lookahead", "budget", "fan_out", "fallback", "pacing", "adapt_depth", "saguaro_c", "tree")


def about(event: Event) -> tuple[int, bool]:
    """The request of an event, and whether the engine has ended it."""
    if isinstance(event, Failure):
        return event.request, True
    number, report = event
    return number, report.finish is not None


class Engine(ABC):
    """The interface of both engines. `alarm` ends a `poll` under way (or else the next one); any thread may ring it."""

    def __init__(self, plan: Plan) -> None:
        self.totals = Totals(plan)
        self.alarm = Alarm()
        self.plan = plan
        self.settings: Settings = settings_of(plan)
        self.measured: dict[str, dict[int, float]] = {}
        self._events: deque[Event] = deque()
        self.times: StepTimes | None = None

    @abstractmethod
    def submit(self, submission: Submission) -> None:
        """Queue a request; its events come from `poll`."""

    @abstractmethod
    def abort(self, request: int) -> None:
        """End a request; no events of it follow but those under way."""

    @abstractmethod
    def poll(self, seconds: float) -> list[Event]:
        """Events that exist, waiting for the first until it comes, `seconds` have passed or the alarm rings.

        Raises:
            WorkerDied: when the target is gone.
        """

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """Measured times, running estimates, warnings."""

    def trace(self) -> list[ProcessTrace]:
        """What target and draft did since the last call, with the option `trace`.

        Raises:
            ConfigError: when the engine was opened without it.
        """
        if not self.plan.config.trace:
            raise ConfigError("this engine keeps no trace; open it with trace=True.")
        return self._traces()

    @abstractmethod
    def _traces(self) -> list[ProcessTrace]: ...

    def _hand_out(self) -> list[Event]:
        """The events that there are, counted and logged."""
        events = list(self._events)
        self._events.clear()
        self.totals.took(events)
        return events

    def kill(self) -> None:  # noqa: B027  # an engine in the calling process has nothing that could be killed
        """End the target by force, from any thread; whoever waits for it gets `WorkerDied`."""

    @abstractmethod
    def close(self) -> None:
        """End everything that was started."""

    @abstractmethod
    def _apply(self, settings: Settings) -> None: ...

    def configure(self, **changes: Any) -> None:
        """Change settings between rounds: those of `CONFIGURABLE`.

        `mode` fixes a gear of the engine, or gives it the choice (`auto`); `lookahead` and `budget` may be `auto`, too.
        """
        for name in changes:
            if name not in CONFIGURABLE:
                raise ConfigError(
                    f"{name!r} cannot be changed while an engine runs; one can: {', '.join(CONFIGURABLE)}."
                )
        check_changes(changes, rejection=self.settings.rejection)
        if "fallback" in changes:
            changes["fallback"] = "adaptive" if changes["fallback"] == "auto" else changes["fallback"]
            FALLBACKS.get(changes["fallback"])  # refused here, not in a worker
        if "tree" in changes:
            if changes["tree"] and self.plan.mode not in TREE_MODES:
                raise ConfigError(NO_TREES)
            if changes["tree"] and self.plan.taps:
                raise ConfigError(NO_TREE)
            changes |= tree_settings(changes["tree"])
        if "mode" in changes:
            changes["gears"] = self._gears(changes.pop("mode"))
        for name in ("lookahead", "budget"):
            if name in changes:
                changes[f"auto_{name}"] = changes[name] == "auto"
                if changes[name] == "auto":
                    changes[name] = getattr(self.plan, name)
        if "pacing" in changes:
            changes["lockstep"] = changes.pop("pacing") == "lockstep"
        if "fan_out" in changes:
            changes["fan_out"] = check_fan_out(changes["fan_out"])
            if lists := fan_out_lists(changes["fan_out"]):
                changes.setdefault("lookahead", len(lists[0]) - 1)
                changes.setdefault("budget", max(map(sum, lists)))
                changes |= {"auto_lookahead": False, "auto_budget": False}
        check_sizes(changes.get("lookahead"), changes.get("budget"))
        self.settings = replace(self.settings, **changes)
        self._apply(self.settings)

    @abstractmethod
    def observations(self) -> list[EndedRound]:
        """Rounds that have ended since the last call, as the draft saw them (option `observe`)."""

    def measure_times(
        self, verify: Sequence[int], step: Sequence[int], *, seconds: float
    ) -> dict[str, dict[int, float]]:
        """Mean seconds of a verification and of a draft step by rows, each alone and both at once.

        Nothing else may run meanwhile. Takes about three times `seconds`. Running estimates start anew from the times
        of both at once.

        Returns:
            `verify_alone`, `step_alone`, `verify_together` and `step_together`. In one process nothing runs at once,
            so that the last two are measured as the first two are.
        """
        found: dict[str, dict[int, float]] = {}
        for name, together in (("alone", False), ("together", True)):
            times = self._times(verify, step, seconds, together=together)
            found |= {f"verify_{name}": times[0], f"step_{name}": times[1]}
        return found

    @abstractmethod
    def _times(
        self, verify: Sequence[int], step: Sequence[int], seconds: float, *, together: bool
    ) -> tuple[dict[int, float], dict[int, float]]: ...

    def _sizes(self, rows: Sequence[int], seconds: float) -> dict[str, Any]:
        """What `measure` of a worker takes; the context leaves room for all rows."""
        lengths = [place.max_positions for place in (self.plan.target, self.plan.draft) if place is not None]
        rows = [count for count in rows if count < min(lengths)]
        context = max(0, min(MEASURE_CONTEXT, min(lengths) - max(rows) - 1))
        return {"rows": rows, "context": context, "repeats": MANY_REPEATS, "seconds": seconds, "mean": True}

    def _gears(self, mode: str) -> tuple[str, ...]:
        """The gears that a mode allows in this engine."""
        possible = {"ar": ("ar",), "sd": ("ar", "sd"), "ssd": ("ar", "sd", "ssd")}[self.plan.mode]
        if mode == "auto":
            return possible
        if mode not in possible:
            known = mode in MODES
            why = "it needs another placement; open a new engine" if known else f"modes are {', '.join(MODES)}"
            raise ConfigError(f"this engine can change to {', '.join(possible)} and auto, not to {mode!r}: {why}.")
        return (mode,)

    def _many_rows(self) -> tuple[int, ...]:
        """Counts beyond one proposal, as far as the batch may come."""
        most = self.plan.config.max_batch * (max(MAX_PLANNED_LOOKAHEAD, self.settings.tree) + 1)
        return tuple(rows for rows in MANY_ROWS if rows <= most)

    def _measure_sizes(self) -> dict[str, Any]:
        lengths = [place.max_positions for place in (self.plan.target, self.plan.draft) if place is not None]
        most = max(*VERIFY_ROWS, *STEP_ROWS, *self._many_rows())
        context = min(MEASURE_CONTEXT, *lengths, min(lengths) - most - 1)
        return {"context": max(0, context), "repeats": MEASURE_REPEATS, "seconds": MEASURE_SECONDS}

    def _settle_plan(self) -> None:
        """Fill in what was `auto` from measured times."""
        if self.plan.lookahead is not None and self.plan.budget is not None:
            return
        verify, step = self.measured["verify_seconds"], self.measured["draft_step_seconds"]
        choose = plan_ssd if self.plan.mode == "ssd" else plan_sd
        chosen = choose(verify, step)
        self.plan = with_measured(self.plan, chosen.lookahead, chosen.budget)
        self.settings = settings_of(self.plan)
        self._apply(self.settings)
