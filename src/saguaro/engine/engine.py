"""The two engines: the same workers in processes of their own, or in the calling process (DESIGN D4, D10).

What they have in common is `interface.py`. Tests: tests/engine/, tests/processes/.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from saguaro.algorithm.rounds import EndedRound
from saguaro.engine.build import build_draft, build_target
from saguaro.engine.interface import ALONE_ROWS, STEP_ROWS, VERIFY_ROWS, Engine
from saguaro.engine.launch import Worker, wait_any
from saguaro.engine.placement import Promised, better, busy, promised, remember
from saguaro.engine.resolve import Plan
from saguaro.engine.sequence import Submission
from saguaro.engine.settings import Settings
from saguaro.engine.supervise import DraftSupervisor
from saguaro.engine.target import Event
from saguaro.engine.trace import ProcessTrace
from saguaro.errors import ConfigError, WorkerDied
from saguaro.theory.rates import StepTimes
from saguaro.transport.loopback import Loopback

log = logging.getLogger(__name__)

ALONE_SECONDS = 1.5
ANSWER_SECONDS = 120.0
APART_SECONDS = 0.001
"""Events of rounds that follow one another faster come together: waking whoever waits for them costs more than some of
the rounds of a toy. Those of a real model are further apart.
"""


class LoopbackEngine(Engine):
    """Both workers in this process. Deterministic: the draft runs when the target waits or a verification ends."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        with torch.inference_mode():
            self.target = build_target(plan, self._events.extend)
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

    def observations(self) -> list[EndedRound]:
        with torch.inference_mode():
            return [] if self.port is None else self.draft.observations()

    def _times(
        self, verify: Sequence[int], step: Sequence[int], seconds: float, *, together: bool
    ) -> tuple[dict[int, float], dict[int, float]]:
        with torch.inference_mode():
            times = self.target.measure(beside=together, **self._sizes(verify, seconds))
            if self.port is None:
                return times, {}
            return times, self.draft.measure(beside=together, **self._sizes(step, seconds))

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
        self._told = 0.0
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
                if message[0] == "events":
                    self._events.extend(message[1])
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

    def observations(self) -> list[EndedRound]:
        if self.plan.mode == "ar":
            return []
        if self.supervisor is not None:
            return self.supervisor.observations()
        self._target.send("observations")
        found: list[EndedRound] = self._expect("observations", ANSWER_SECONDS)
        return found

    def _times(
        self, verify: Sequence[int], step: Sequence[int], seconds: float, *, together: bool
    ) -> tuple[dict[int, float], dict[int, float]]:
        draft = self.supervisor.current if self.supervisor is not None else None
        if draft is None:
            raise ConfigError("step times are measured of an engine of mode 'ssd' whose draft lives.")
        beside = {"beside": together}
        if together:
            draft.worker.send("measure", beside | self._sizes(step, seconds))
        self._target.send("measure", beside | self._sizes(verify, seconds))
        times: dict[int, float] = self._expect("measured", ANSWER_SECONDS + 2 * seconds)[0]
        if not together:
            draft.worker.send("measure", beside | self._sizes(step, seconds))
        return times, draft.worker.expect("measured", ANSWER_SECONDS + 2 * seconds)

    def submit(self, submission: Submission) -> None:
        self.totals.submitted(submission)
        self._target.send("submit", submission)

    def abort(self, request: int) -> None:
        self.totals.left(request)
        self._target.send("abort", request)

    def poll(self, seconds: float) -> list[Event]:
        now = time.monotonic()
        deadline = now + seconds
        if self._told + APART_SECONDS > now:
            time.sleep(self._told + APART_SECONDS - now)
        while True:
            for name, value in self._target.arrived():
                if name == "events":
                    self._events.extend(value)
            if self.supervisor is not None:
                self.supervisor.check()
            left = deadline - time.monotonic()
            if self._events or left <= 0 or self.alarm.rang():
                break
            wait_any([self._target.pipe, self.alarm], min(left, 0.2))
        if self._events:
            self._told = time.monotonic()
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

    def kill(self) -> None:
        self._target.process.kill()

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
