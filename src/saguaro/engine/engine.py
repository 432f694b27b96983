"""What the faces talk to: requests in, events out, wherever the workers run.

`ProcessEngine` runs target and draft in processes of their own; `LoopbackEngine` runs both in the calling process. Both
drive the very same workers (DESIGN D4, D10). Not thread-safe: one thread at a time, but for the alarm that ends a
`poll`; `driver.py` is that thread for callers that have several. Tests: tests/engine/, tests/processes/.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import replace
from typing import Any

import torch

from saguaro.config import MODES, check_sizes, fan_out_lists
from saguaro.engine.adapt import plan_sd, plan_ssd
from saguaro.engine.alarm import Alarm
from saguaro.engine.build import build_draft, build_target, settings_of
from saguaro.engine.launch import Worker, wait_any
from saguaro.engine.placement import Promised, better, busy, promised, remember
from saguaro.engine.proposing import Settings
from saguaro.engine.resolve import Plan, check_fan_out, with_measured
from saguaro.engine.sequence import Submission
from saguaro.engine.supervise import DraftSupervisor
from saguaro.engine.target import Event, Failure
from saguaro.errors import ConfigError, WorkerDied
from saguaro.theory.rates import MAX_PLANNED_LOOKAHEAD, StepTimes
from saguaro.transport.loopback import Loopback

log = logging.getLogger(__name__)

VERIFY_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
ALONE_ROWS = (1, 2, 4, 8)
MANY_ROWS = (12, 16, 24)
"""Rows of large batches; what lies beyond goes on by the last slope."""
STEP_ROWS = (1, 2, 4, 6, 8, 12)
MEASURE_CONTEXT = 128
MEASURE_REPEATS = 30
MEASURE_SECONDS, ALONE_SECONDS = 3.0, 1.5
CONFIGURABLE = (
    "mode", "lookahead", "budget", "fan_out", "fallback", "pacing", "adapt_depth", "branches", "saguaro_c",
)  # fmt: skip
ANSWER_SECONDS = 120.0


def about(event: Event) -> tuple[int, bool]:
    """The request of an event, and whether the engine has ended it."""
    if isinstance(event, Failure):
        return event.request, True
    number, report = event
    return number, report.finish is not None


class Engine(ABC):
    """The interface of both engines. `alarm` ends a `poll` under way (or else the next one); any thread may ring it."""

    def __init__(self, plan: Plan) -> None:
        self.alarm = Alarm()
        self.plan = plan
        self.settings: Settings = settings_of(plan)
        self.measured: dict[str, dict[int, float]] = {}
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

    @abstractmethod
    def close(self) -> None:
        """End everything that was started."""

    @abstractmethod
    def _apply(self, settings: Settings) -> None: ...

    def configure(self, **changes: Any) -> None:
        """Change settings between rounds: those of `CONFIGURABLE`. Without `branches` SSD is SD, with a draft apart.

        `mode` fixes a gear of the engine, or gives it the choice (`auto`); `lookahead` and `budget` may be `auto`, too.
        """
        for name in changes:
            if name not in CONFIGURABLE:
                raise ConfigError(
                    f"{name!r} cannot be changed while an engine runs; one can: {', '.join(CONFIGURABLE)}."
                )
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
        if changes.get("saguaro_c", 1.0) != 1.0 and not self.settings.rejection:
            raise ConfigError("saguaro_c applies to verification='rejection' only; leave it out or change that.")
        self.settings = replace(self.settings, **changes)
        self._apply(self.settings)

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
        most = self.plan.config.max_batch * (MAX_PLANNED_LOOKAHEAD + 1)
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


class LoopbackEngine(Engine):
    """Both workers in this process. Deterministic: the draft runs when the target waits or a verification ends."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._events: deque[Event] = deque()
        with torch.inference_mode():
            self.target = build_target(plan, self._events.append)
            self.port: Loopback | None = None
            if plan.mode != "ar":
                self.port = Loopback()
                self.draft = build_draft(plan, self.port)
                self.port.step = self.draft.step
                self.target.attach(self.port)
        if plan.mode != "ar":
            self._measure()

    def _measure(self) -> None:
        sizes = self._measure_sizes()
        with torch.inference_mode():
            self.measured["verify_seconds"] = self.target.measure(VERIFY_ROWS, beside=True, **sizes)
            self.measured["draft_step_seconds"] = self.draft.measure(STEP_ROWS, beside=True, **sizes)
        self._settle_plan()

    def submit(self, submission: Submission) -> None:
        self.target.submit(submission)

    def abort(self, request: int) -> None:
        self.target.abort(request)

    def poll(self, seconds: float) -> list[Event]:
        deadline = time.monotonic() + seconds
        with torch.inference_mode():
            while not self._events and not self.alarm.rang():
                if self.target.step():
                    continue
                left = deadline - time.monotonic()
                if self._events or left <= 0:
                    break
                wait_any([self.alarm], left)
        events = list(self._events)
        self._events.clear()
        return events

    def _apply(self, settings: Settings) -> None:
        self.target.configure(settings)

    def statistics(self) -> dict[str, Any]:
        answer = {"plan": self.plan.summary(), "measured": self.measured, **self.target.statistics()}
        if self.port is not None:
            answer["draft"] = self.draft.statistics()
        return answer

    def close(self) -> None:
        self.alarm.close()
        if self.port is not None:
            self.port.close()


class ProcessEngine(Engine):
    """Target and draft in processes of their own, pinned to their devices."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._events: deque[Event] = deque()
        self.supervisor: DraftSupervisor | None = None
        self._target = Worker("target", plan.target.device, (plan,))
        try:
            if plan.mode == "ssd":
                self.supervisor = DraftSupervisor(plan, self._target)
                self.supervisor.start()
            self._expect("hello")
            if self.supervisor is not None:
                self.supervisor.wait_ready()
                self._expect("attached")
            if plan.mode != "ar":
                self._measure()
        except BaseException:
            self.close(kill=True)
            raise

    def _expect(self, wanted: str, seconds: float = 600.0) -> Any:
        """An answer of the target; events that come meanwhile are kept."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = self._target.receive(0.2)
            if message is not None:
                if message[0] == wanted:
                    return message[1]
                if message[0] == "event":
                    self._events.append(message[1])
            elif self.supervisor is not None and self.supervisor.current is not None:
                self._raise_if_draft_failed()
        raise WorkerDied(f"the target process did not answer within {seconds:.0f} s.")

    def _raise_if_draft_failed(self) -> None:
        """While everything starts, a draft that fails is an error, not a warning."""
        assert self.supervisor is not None
        assert self.supervisor.current is not None
        draft = self.supervisor.current
        if not draft.ready and not draft.worker.alive:
            draft.worker.expect("hello", seconds=1.0)

    def _measure(self) -> None:
        """What counts is how fast each is while the other works (memory may be shared): both are measured at once, and
        alone where the draft may become idle.
        """
        measured, draft = self.measured, self.supervisor.current if self.supervisor is not None else None
        rows = (*VERIFY_ROWS, *self._many_rows())
        sizes = {**self._measure_sizes(), "beside": draft is not None}
        if draft is not None:
            draft.worker.send("measure", {"rows": STEP_ROWS, **sizes})
        self._target.send("measure", {"rows": rows, **sizes})
        answers = self._expect("measured", ANSWER_SECONDS)
        if draft is not None:
            answers.append(draft.worker.expect("measured", ANSWER_SECONDS))
        measured["verify_seconds"], measured["draft_step_seconds"] = answers
        self.times = StepTimes.of(*answers)
        if draft is not None and self.plan.gears:
            sizes |= {"beside": False, "seconds": ALONE_SECONDS}
            draft.worker.send("measure", {"rows": STEP_ROWS, **sizes, "seconds": ALONE_SECONDS / 3})
            measured["draft_step_alone_seconds"] = draft.worker.expect("measured", ANSWER_SECONDS)
            self._target.send("measure", {"rows": (*ALONE_ROWS, *self._many_rows()), **sizes})
            [measured["verify_alone_seconds"]] = self._expect("measured", ANSWER_SECONDS)
            alone = (measured["verify_alone_seconds"], measured["draft_step_alone_seconds"])
            self.times = StepTimes(alone[0], answers[0], alone[1], answers[1])
        self._settle_plan()
        self._target.send("learn", self.times)

    def submit(self, submission: Submission) -> None:
        self._target.send("submit", submission)

    def abort(self, request: int) -> None:
        self._target.send("abort", request)

    def poll(self, seconds: float) -> list[Event]:
        deadline = time.monotonic() + seconds
        while True:
            while (message := self._target.receive(0)) is not None:
                if message[0] == "event":
                    self._events.append(message[1])
            if self.supervisor is not None:
                self.supervisor.check()
            left = deadline - time.monotonic()
            if self._events or self.alarm.rang() or left <= 0:
                break
            wait_any([self._target.connection, self.alarm], min(left, 0.2))
        events = list(self._events)
        self._events.clear()
        return events

    def _apply(self, settings: Settings) -> None:
        self._target.send("configure", settings)

    def statistics(self) -> dict[str, Any]:
        self._target.send("statistics")
        answer = self._expect("statistics", ANSWER_SECONDS)
        supervisor = self.supervisor
        answer["warnings"] += supervisor.warnings if supervisor else []
        restarts = supervisor.restarts if supervisor else 0
        if supervisor is not None:
            answer["draft"] = supervisor.statistics()
        return {
            "plan": self.plan.summary(),
            "measured": self.measured,
            "draft_restarts": restarts,
            **answer,
        }

    def close(self, *, kill: bool = False) -> None:
        self.alarm.close()
        if self.supervisor is not None:
            self.supervisor.close()
        if kill:
            self._target.kill()
        else:
            self._target.close()


def open_engine(plan: Plan) -> Engine:
    """The engine for a plan; where it leaves the placement open, the one that promises more."""
    if plan.config.channel == "loopback":
        return LoopbackEngine(plan)
    return _open_best(plan) if plan.others else ProcessEngine(plan)


def _open_best(plan: Plan) -> Engine:
    """Open each placement in turn, and keep the one that promises most; only one is in memory at a time. What was
    measured on a busy machine holds for this engine alone.
    """
    disturbed = busy()
    tried: list[tuple[Plan, Promised]] = []
    engine: ProcessEngine | None = None
    best = 0
    for number, each in enumerate((replace(plan, others=()), *plan.others)):
        if engine is not None:
            engine.close()
        engine = ProcessEngine(each)
        assert engine.times is not None
        found = promised(engine.times, each.gears, max_batch=each.config.max_batch, acceptance=each.acceptance)
        tried.append((each, found))
        if number and better(tried[best][1], found):
            best = number
    chosen = tried[best][0]
    said = [f"{_where(each)} {found.rate:.1f} tokens/s in {found.gear}" for each, found in tried]
    when = "tried now, on a busy machine," if disturbed else "tried at the first start,"
    why = f"auto: {when} promised: {', '.join(said)}"
    assert chosen.draft is not None
    if not disturbed:
        remember(plan.cache_dir, plan.key, chosen.target.device.text, chosen.draft.device.text, why)
    log.info(why)
    assert engine is not None
    if best != len(tried) - 1:
        engine.close()
        engine = ProcessEngine(chosen)
    engine.plan = replace(engine.plan, why=why)
    return engine


def _where(plan: Plan) -> str:
    """The devices of a plan."""
    assert plan.draft is not None
    target, draft = plan.target.device.text, plan.draft.device.text
    return target if target == draft else f"{target} + {draft}"
