"""What the faces talk to: requests in, events out, wherever the workers run.

`ProcessEngine` runs target and draft in processes of their own; `LoopbackEngine` runs both in the calling process. Both
drive the very same workers (DESIGN D4, D10). Not thread-safe: one thread at a time, but for the alarm that ends a
`poll`; `driver.py` is that thread for callers that have several. Tests: tests/engine/, tests/processes/.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import replace
from typing import Any

import torch

from saguaro.config import check_sizes, fan_out_lists
from saguaro.engine.adapt import plan_sd, plan_ssd
from saguaro.engine.alarm import Alarm
from saguaro.engine.build import build_draft, build_target, settings_of
from saguaro.engine.launch import Worker, wait_any
from saguaro.engine.proposing import Settings
from saguaro.engine.resolve import Plan, check_fan_out, with_measured
from saguaro.engine.sequence import Submission
from saguaro.engine.supervise import DraftSupervisor
from saguaro.engine.target import Event, Failure
from saguaro.engine.totals import Totals
from saguaro.engine.trace import ProcessTrace
from saguaro.errors import ConfigError, WorkerDied
from saguaro.transport.loopback import Loopback

VERIFY_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
STEP_ROWS = (1, 2, 4, 6, 8, 12)
MEASURE_CONTEXT = 128
MEASURE_REPEATS = 30
MEASURE_SECONDS = 3.0
CONFIGURABLE = ("lookahead", "budget", "fan_out", "fallback", "pacing", "adapt_depth", "branches", "saguaro_c")
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
        self.totals = Totals(plan)
        self.alarm = Alarm()
        self.plan = plan
        self.settings: Settings = settings_of(plan)
        self.measured: dict[str, dict[int, float]] = {}
        self._events: deque[Event] = deque()

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

    @abstractmethod
    def close(self) -> None:
        """End everything that was started."""

    @abstractmethod
    def _apply(self, settings: Settings) -> None: ...

    def configure(self, **changes: Any) -> None:
        """Change settings between rounds: those of `CONFIGURABLE`. Without `branches` SSD is SD, with a draft apart."""
        for name in changes:
            if name not in CONFIGURABLE:
                raise ConfigError(
                    f"{name!r} cannot be changed while an engine runs; one can: {', '.join(CONFIGURABLE)}."
                )
        if "pacing" in changes:
            changes["lockstep"] = changes.pop("pacing") == "lockstep"
        if "fan_out" in changes:
            changes["fan_out"] = check_fan_out(changes["fan_out"])
            if lists := fan_out_lists(changes["fan_out"]):
                changes.setdefault("lookahead", len(lists[0]) - 1)
                changes.setdefault("budget", max(map(sum, lists)))
        check_sizes(changes.get("lookahead"), changes.get("budget"))
        if changes.get("saguaro_c", 1.0) != 1.0 and not self.settings.rejection:
            raise ConfigError("saguaro_c applies to verification='rejection' only; leave it out or change that.")
        self.settings = replace(self.settings, **changes)
        self._apply(self.settings)

    def _measure_sizes(self) -> dict[str, Any]:
        lengths = [place.max_positions for place in (self.plan.target, self.plan.draft) if place is not None]
        context = min(MEASURE_CONTEXT, *lengths, min(lengths) - max(*VERIFY_ROWS, *STEP_ROWS) - 1)
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
            self.measured["verify_seconds"] = self.target.measure(VERIFY_ROWS, **sizes)
            self.measured["draft_step_seconds"] = self.draft.measure(STEP_ROWS, **sizes)
        self._settle_plan()

    def submit(self, submission: Submission) -> None:
        self.totals.submitted(submission)
        self.target.submit(submission)

    def abort(self, request: int) -> None:
        self.totals.left(request)
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
        return self._hand_out()

    def _apply(self, settings: Settings) -> None:
        self.target.configure(settings)

    def statistics(self) -> dict[str, Any]:
        plan, totals = self.plan.summary(), self.totals.summary()
        answer = {"plan": plan, "measured": self.measured, "totals": totals, **self.target.statistics()}
        if self.port is not None:
            answer["draft"] = self.draft.statistics()
        return answer

    def _traces(self) -> list[ProcessTrace]:
        rings = [self.target.trace, self.draft.activity.trace if self.port is not None else None]
        return [ring.take() for ring in rings if ring is not None]

    def close(self) -> None:
        self.alarm.close()
        self.totals.close()
        if self.port is not None:
            self.port.close()


class ProcessEngine(Engine):
    """Target and draft in processes of their own, pinned to their devices."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
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
        """Both at once: what counts is how fast each is while the other works (memory may be shared)."""
        sizes = self._measure_sizes()
        draft = self.supervisor.current if self.supervisor is not None else None
        if draft is not None:
            draft.worker.send("measure", {"rows": STEP_ROWS, **sizes})
        self._target.send("measure", {"rows": VERIFY_ROWS, **sizes})
        answers = self._expect("measured", ANSWER_SECONDS)
        self.measured["verify_seconds"] = answers[0]
        if draft is not None:
            answers.append(draft.worker.expect("measured", ANSWER_SECONDS))
        self.measured["draft_step_seconds"] = answers[1]
        self._settle_plan()

    def submit(self, submission: Submission) -> None:
        self.totals.submitted(submission)
        self._target.send("submit", submission)

    def abort(self, request: int) -> None:
        self.totals.left(request)
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
        return self._hand_out()

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
            "totals": self.totals.summary(),
            "draft_restarts": restarts,
            **answer,
        }

    def _traces(self) -> list[ProcessTrace]:
        self._target.send("trace")
        found: list[ProcessTrace] = self._expect("trace", ANSWER_SECONDS)
        draft = self.supervisor.trace() if self.supervisor is not None else None
        return found if draft is None else [*found, draft]

    def close(self, *, kill: bool = False) -> None:
        self.alarm.close()
        self.totals.close()
        if self.supervisor is not None:
            self.supervisor.close()
        if kill:
            self._target.kill()
        else:
            self._target.close()


def open_engine(plan: Plan) -> Engine:
    """The engine for a plan."""
    return LoopbackEngine(plan) if plan.config.channel == "loopback" else ProcessEngine(plan)
