"""Closed and open loops: who keeps an engine busy, and what came back when.

A closed loop keeps a number of requests running and starts the next as soon as one ends. An open loop starts requests
at given times, whatever the engine does. Both take an engine as `Serving`, a clock and a sleep, and return times and
completions; what these mean is in `load_figures`. Times are seconds of the clock. Must not know: engines, models,
terminals. Tests: tests/bench/test_load.py.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from saguaro.request import Completion, SamplingParams

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Request:
    """What is asked: `number` counts the requests of a run and fixes prompt and seed."""

    number: int
    prompt: str
    params: SamplingParams


@dataclass(frozen=True)
class Delivery:
    """Tokens of one request that arrived together; the last delivery brings the completion."""

    number: int
    time: float
    tokens: int
    completion: Completion | None = None


class Serving(Protocol):
    """An engine as the loops see it."""

    def start(self, request: Request) -> None:
        """Submit a request; its deliveries come from `poll`."""

    def poll(self, seconds: float) -> list[Delivery]:
        """Deliveries that exist, in order of time, waiting at most so long for the first."""

    def abort(self) -> None:
        """End every request that still runs."""


@dataclass
class Served:
    """One request of a loop. `arrival` is when it was due, `submitted` when the loop handed it over."""

    request: Request
    arrival: float
    submitted: float
    deliveries: list[Delivery] = field(default_factory=list)

    @property
    def completion(self) -> Completion:
        """The finished request."""
        completion = self.deliveries[-1].completion
        assert completion is not None
        return completion

    @property
    def first_token(self) -> float:
        """When the first token arrived."""
        return self.deliveries[0].time

    @property
    def ended(self) -> float:
        """When the last token arrived."""
        return self.deliveries[-1].time


@dataclass(frozen=True)
class Load:
    """One loop: the requests in order of their numbers, and the loaded phase, from `began` until `loaded_until`.

    Closed loop: from the first submission until the first end after which no request was left to start, so that
    exactly `rows` requests were running. Open loop: from time 0 of the arrivals until the last end.
    """

    began: float
    loaded_until: float
    served: list[Served]


def closed_loop(
    serving: Serving,
    requests: Sequence[Request],
    rows: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    on_end: Callable[[], None] | None = None,
) -> Load:
    """Keep `rows` requests running until all have been served.

    Raises:
        RequestRefused, SaguaroError: when a request fails; those that still run are ended.
    """
    waiting = deque(requests)
    book = _Book(serving, clock, on_end)
    began = clock()
    loaded_until: float | None = None
    with book:
        while waiting and len(book.open) < rows:
            book.start(waiting.popleft())
        while book.open:
            for delivery in serving.poll(POLL_SECONDS):
                if not book.take(delivery):
                    continue
                if waiting:
                    book.start(waiting.popleft())
                elif loaded_until is None:
                    loaded_until = delivery.time
    return Load(began, began if loaded_until is None else loaded_until, book.in_order())


def open_loop(
    serving: Serving,
    requests: Sequence[Request],
    times: Sequence[float],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    on_end: Callable[[], None] | None = None,
) -> Load:
    """Start request i at `times[i]` after the beginning and wait until all have been served.

    Raises:
        RequestRefused, SaguaroError: when a request fails; those that still run are ended.
    """
    due = deque(zip(times, requests, strict=True))
    book = _Book(serving, clock, on_end)
    began = clock()
    with book:
        while due or book.open:
            while due and began + due[0][0] <= clock():
                at, request = due.popleft()
                book.start(request, arrival=began + at)
            gap = max(0.0, began + due[0][0] - clock()) if due else POLL_SECONDS
            if book.open:
                for delivery in serving.poll(min(gap, POLL_SECONDS)):
                    book.take(delivery)
            else:
                sleep(gap)
    served = book.in_order()
    return Load(began, max((one.ended for one in served), default=began), served)


class _Book:
    """Who runs and who is done. On leaving by an error, requests that still run are ended."""

    def __init__(self, serving: Serving, clock: Callable[[], float], on_end: Callable[[], None] | None) -> None:
        self.open: dict[int, Served] = {}
        self._done: list[Served] = []
        self._serving, self._clock, self._on_end = serving, clock, on_end

    def start(self, request: Request, *, arrival: float | None = None) -> None:
        """Submit a request, due now unless `arrival` says when it was."""
        now = self._clock()
        self.open[request.number] = Served(request, now if arrival is None else arrival, now)
        self._serving.start(request)

    def take(self, delivery: Delivery) -> bool:
        """Note a delivery; whether it was the last of its request."""
        served = self.open[delivery.number]
        served.deliveries.append(delivery)
        if delivery.completion is None:
            return False
        self._done.append(self.open.pop(delivery.number))
        if self._on_end is not None:
            self._on_end()
        return True

    def in_order(self) -> list[Served]:
        """Those that are done, by their numbers."""
        return sorted(self._done, key=lambda served: served.request.number)

    def __enter__(self) -> _Book:
        return self

    def __exit__(self, *_: object) -> None:
        if self.open:
            self._serving.abort()
