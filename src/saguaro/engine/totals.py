"""What all requests of an engine did together, and the log of their rounds: both read the events on their way out.

Rounds that a stop string cuts count in full here: the engine does not know of it. Must not know: how events come about,
text. Tests: tests/engine/test_totals.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from saguaro.engine.counting import RoundCounter
from saguaro.engine.resolve import Plan
from saguaro.engine.round_log import RoundLog
from saguaro.engine.sequence import Submission
from saguaro.engine.target import Event, Failure
from saguaro.request import RequestMetrics

NOT_ADDED = ("time_to_first_token",)
"""Fields that say nothing when they are added up."""


class _Followed(NamedTuple):
    choice: int
    counter: RoundCounter


class Totals:
    """Counters over all requests since the engine was opened.

    Raises:
        ConfigError: when the plan names a round log that cannot be written.
    """

    def __init__(self, plan: Plan) -> None:
        self.metrics = RequestMetrics()
        self.requests = 0
        self._speculates = plan.mode == "ssd"
        self._running: dict[int, _Followed] = {}
        path = plan.config.round_log
        self._log = None if path is None else RoundLog(path, name_of(plan))

    def submitted(self, submission: Submission) -> None:
        """A request is on its way."""
        self.requests += 1
        looks_up = self._speculates and submission.lookahead != 0
        counter = RoundCounter(
            self.metrics, prompt_tokens=len(submission.prompt), looks_up=looks_up, keeps_rounds=False
        )
        self._running[submission.request] = _Followed(submission.sampling.choice, counter)

    def left(self, request: int) -> None:
        """A request was aborted: what is still under way of it does not count."""
        self._running.pop(request, None)

    def took(self, events: Iterable[Event]) -> None:
        """Events that the engine hands out."""
        for event in events:
            if isinstance(event, Failure):
                self.left(event.request)
                continue
            request, report = event
            followed = self._running.get(request)
            if followed is None:
                continue
            followed.counter.add(report, len(report.tokens))
            if self._log is not None and report.source != "prefill":
                self._log.write(request, followed.choice, report, looks_up=followed.counter.looks_up and report.looked)
            if report.finish is not None:
                self.left(request)

    def summary(self) -> dict[str, Any]:
        """Counters and rates, as plain values."""
        values = {name: value for name, value in self.metrics.to_dict().items() if name not in NOT_ADDED}
        return {"requests": self.requests, **values}

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


def name_of(plan: Plan) -> str:
    """An engine in a few words: its mode, verification and devices."""
    devices = [plan.target.device.text]
    if plan.mode == "ssd" and plan.draft is not None:
        devices.append(plan.draft.device.text)
    kind = [] if plan.mode == "ar" else [plan.config.verification]
    return " ".join([plan.mode, *kind, "on", " + ".join(devices)])
