"""Watches the draft process: a dead or stopped one is replaced, and requests go on without it meanwhile.

A draft that ended, or that has not said for `SILENCE_SECONDS` that it lives, is killed for good before its successor
starts with a new generation and a new mailbox (DESIGN D3). Restarts back off: 0.5 s, 1 s, 2 s, ... up to 30 s.
Tests: tests/processes/test_faults.py.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from typing import Any

from saguaro.algorithm.rounds import EndedRound
from saguaro.algorithm.siblings import MAX_SIBLINGS
from saguaro.engine.launch import Worker
from saguaro.engine.resolve import Plan
from saguaro.engine.trace import ProcessTrace
from saguaro.errors import SaguaroError, WorkerDied
from saguaro.transport.mailbox import MailboxShape, MailboxTarget, create

log = logging.getLogger(__name__)

SILENCE_SECONDS, ANSWER_SECONDS = 3.0, 5.0
HUNG_SECONDS = 0.75
"""A draft that has said nothing for so long is asked nothing."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
OBSERVATIONS_SECONDS = 60.0
MAX_ENTRIES = 65
MAX_TOKENS = 16
RING_BYTES = 4 << 20
TAP_PASSES = 4
"""Hidden states (for an EAGLE-3 draft) of so many of the largest passes may wait for the draft to read them."""


@dataclass
class DraftProcess:
    """One generation of the draft: its process, its mailbox, and a view to read its heartbeat."""

    worker: Worker
    descriptor: int
    shape: MailboxShape
    view: MailboxTarget
    ready: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> str:
        """Where another process of this user can open the mailbox."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def silent_for(self) -> float:
        """Seconds since its last sign of life."""
        return time.monotonic() - max(self.view.status().heartbeat, self.started)

    def hangs(self) -> bool:
        """Whether it has been silent for longer than a draft at work ever is."""
        return self.silent_for() > HUNG_SECONDS

    def end(self, *, kill: bool) -> None:
        """End the process and give its memory up."""
        if kill:
            self.worker.kill()
        else:
            self.worker.close()
        self.view.close()
        os.close(self.descriptor)


class DraftSupervisor:
    """Keeps one draft running. `target` is told of every change."""

    def __init__(self, plan: Plan, target: Worker) -> None:
        self._plan = plan
        self._target = target
        self._generation = 0
        self._pause = FIRST_PAUSE
        self._next_start = 0.0
        self.restarts = 0
        self.warnings: list[str] = []
        self.current: DraftProcess | None = None

    def start(self) -> None:
        """Start a new generation; it says hello later."""
        plan = self._plan
        assert plan.draft is not None
        self._generation += 1
        width = plan.vocab if plan.config.verification == "rejection" else 0
        ring = max(RING_BYTES, 8 * plan.config.max_batch * plan.max_model_len)  # every row joins twice, at full length
        ring += TAP_PASSES * 2 * plan.tap_width * plan.config.max_step_tokens
        rows = plan.config.max_batch
        shape = MailboxShape(rows, MAX_ENTRIES, MAX_TOKENS, width, self._generation, ring, MAX_SIBLINGS)
        descriptor = create(shape)
        worker = Worker("draft", plan.draft.device, (plan, descriptor, shape), (descriptor,))
        self.current = DraftProcess(worker, descriptor, shape, MailboxTarget(descriptor, shape))

    def wait_ready(self) -> None:
        """First start: wait until the model is loaded. Raises what the worker failed with."""
        assert self.current is not None
        self.current.worker.expect("hello")
        self._attach()

    def _attach(self) -> None:
        draft = self.current
        assert draft is not None
        draft.ready = True
        self._target.send("draft", (draft.path, draft.shape))

    def statistics(self) -> dict[str, Any] | None:
        """The draft's own counters; None while there is no draft that answers."""
        answer: dict[str, Any] | None = self._ask("statistics")
        return answer

    def trace(self) -> ProcessTrace | None:
        """What this generation of the draft did; None while there is no draft that answers."""
        answer: ProcessTrace | None = self._ask("trace")
        return answer

    def _ask(self, name: str) -> Any:
        """None when there is no draft, or one that hangs: whoever asks has requests to serve meanwhile."""
        draft = self.current
        if draft is None or not draft.ready or draft.hangs():
            return None
        try:
            while draft.worker.receive(0) is not None:
                pass  # an answer that came too late for an earlier question
            draft.worker.send(name)
            return draft.worker.expect(name, ANSWER_SECONDS, hangs=draft.hangs)
        except (SaguaroError, OSError):
            return None

    def observations(self) -> list[EndedRound]:
        """Ended rounds as the present draft saw them; raises `WorkerDied` when there is none."""
        if self.current is None or not self.current.ready:
            raise WorkerDied("the draft process is gone, and with it the rounds that it observed; run them again.")
        self.current.worker.send("observations")
        found: list[EndedRound] = self.current.worker.expect("observations", OBSERVATIONS_SECONDS)
        return found

    def check(self) -> None:
        """Look after the draft; called often, never blocks for long."""
        draft = self.current
        if draft is None:
            if self._plan.config.restart_draft and time.monotonic() >= self._next_start:
                self.restarts += 1
                self.start()
            return
        if not draft.ready:
            self._check_loading(draft)
        elif not draft.worker.alive:
            self._lose(f"the draft process ended ({draft.worker.end_status()})")
        elif draft.silent_for() > SILENCE_SECONDS:
            self._lose(f"the draft process has been silent for {SILENCE_SECONDS:.0f} s")
        elif time.monotonic() - draft.started > LONGEST_PAUSE:
            self._pause = FIRST_PAUSE

    def _check_loading(self, draft: DraftProcess) -> None:
        try:
            message = draft.worker.receive(0)
        except SaguaroError as error:
            self._lose(str(error))
            return
        if message is not None and message[0] == "hello":
            self._attach()

    def _lose(self, reason: str) -> None:
        draft, self.current = self.current, None
        assert draft is not None
        self._target.send("no_draft")
        draft.end(kill=True)
        after = f"a new one starts in {self._pause:g} s" if self._plan.config.restart_draft else "it is not restarted"
        message = f"{reason.rstrip('.')}; requests go on without it, {after}."
        self.warnings.append(message)
        log.warning(message)
        self._next_start = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def close(self) -> None:
        """End the draft."""
        if self.current is not None:
            self.current.end(kill=not self.current.ready or self.current.silent_for() > SILENCE_SECONDS)
            self.current = None
