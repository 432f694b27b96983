"""What the draft does with its time: passes, and waiting while it has rows (`statistics()["draft"]`, and its trace).

Must not know: channels, models, what a pass is for. Tests: tests/engine/test_activity.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from saguaro.engine.draft_work import Work
from saguaro.engine.trace import Ring
from saguaro.protocol.messages import Decided, Message


class Activity:
    """Counts steps, the rows that they ran, and seconds busy and idle. `trace` also keeps each of them."""

    def __init__(self, trace: Ring | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.trace = trace
        self._clock = clock
        self._steps = self._given_up = self._rows_run = 0
        self._busy = self._idle = 0.0
        self._resting: float | None = None  # since when there was nothing to run, with rows to run for
        self._counted = 0.0  # up to when that time is in `_idle`

    def summary(self) -> dict[str, Any]:
        """Counters, as plain values. Rows are tokens: those of prompts, of proposals and of branches alike."""
        return {
            "steps": self._steps,
            "steps_given_up": self._given_up,
            "rows_run": self._rows_run,
            "busy_seconds": self._busy,
            "idle_seconds": self._idle,
        }

    def rested(self, has_rows: bool) -> None:
        """There was nothing to run. Called again and again while that is so."""
        now = self._clock()
        self._end_rest(now)
        if has_rows and self._resting is None:
            self._resting = self._counted = now
        elif not has_rows:
            self._close_rest(now)

    def stepped(self, began: float, work: Sequence[Work], *, given_up: bool = False) -> float:
        """A pass that began then has ended now, or was given up; returns its seconds."""
        now = self._clock()
        self._end_rest(began)
        self._close_rest(began)
        self._steps += 1
        self._given_up += given_up
        self._rows_run += sum(len(w.span.tokens) for w in work)
        self._busy += now - began
        if self.trace is not None:
            self.trace.span("given up" if given_up else kind_of(work), began, now, what(work))
        return now - began

    def heard(self, began: float, messages: Sequence[Message]) -> None:
        """Messages were read and obeyed, which began then."""
        if self.trace is None or not messages:
            return
        names = [type(message).__name__ for message in messages]
        self.trace.span("news", began, self._clock(), {"messages": names})
        for message in messages:
            if isinstance(message, Decided):
                self.trace.heard(began, message.request, message.round)

    def _end_rest(self, now: float) -> None:
        """Count idle time up to now."""
        if self._resting is not None:
            self._idle += max(0.0, now - self._counted)
            self._counted = now

    def _close_rest(self, now: float) -> None:
        if self._resting is not None and self.trace is not None:
            self.trace.span("idle", self._resting, now)
        self._resting = None


def kind_of(work: Sequence[Work]) -> str:
    """What a pass is for, by what is in it: the tokens that a row came with, the tail that grew since, branches."""
    if any(w.span.start < len(w.row.admit.tokens) for w in work if w.branch is None):
        return "prefill"
    kinds = {"tail" if w.branch is None else "branches" for w in work}
    return "tail + branches" if len(kinds) > 1 else kinds.pop()


def what(work: Sequence[Work]) -> dict[str, Any]:
    """The rows of a pass: tokens of tails by request, and the outcomes whose branches ran."""
    return {
        "rows": sum(len(w.span.tokens) for w in work),
        "tails": {str(w.row.request): len(w.span.tokens) for w in work if w.branch is None},
        "branches": [(w.row.request, w.branch.accepted, w.branch.bonus) for w in work if w.branch is not None],
    }
