"""Completions with known counters, and an engine in made-up time."""

from collections import deque
from pathlib import Path

import pytest

from saguaro.bench.load import Delivery, Request
from saguaro.request import Completion, RequestMetrics, SamplingParams


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture
def completion():
    """Make a completion of `ids` whose counters are given."""

    def make(ids, **counters) -> Completion:
        return Completion("", list(ids), "length", [1], RequestMetrics(**counters), seed=0)

    return make


class MadeUpEngine:
    """Serves `rows` requests at a time: a round takes a second, the first gives one token and each further two.

    It is `Serving`, clock and sleep in one, so that loops run in no time.
    """

    def __init__(self, rows: int) -> None:
        self.rows, self.now = rows, 0.0
        self.queue, self.running, self.round_ends = deque(), {}, None
        self.aborted = None
        self.most = 0  # requests that were open at once, here or in the queue

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert not self.running
        assert not self.queue
        self.now += seconds

    def start(self, request: Request) -> None:
        self.queue.append(request)
        self.most = max(self.most, len(self.queue) + len(self.running))

    def poll(self, seconds: float) -> list[Delivery]:
        if self.round_ends is None:
            while self.queue and len(self.running) < self.rows:
                request = self.queue.popleft()
                self.running[request.number] = (request, 0)
            self.round_ends = self.now + 1.0
        if self.now + seconds < self.round_ends:
            self.now += seconds
            return []
        self.now, self.round_ends = self.round_ends, None
        return [self._round(number) for number in list(self.running)]

    def _round(self, number: int) -> Delivery:
        request, done = self.running[number]
        most = request.params.max_tokens
        tokens = min(2 if done else 1, most - done)
        self.running[number] = (request, done + tokens)
        if done + tokens < most:
            return Delivery(number, self.now, tokens)
        del self.running[number]
        ids = [number] * most
        return Delivery(number, self.now, tokens, Completion("", ids, "length", [1], RequestMetrics(), seed=0))

    def abort(self) -> None:
        self.aborted = sorted({*self.running, *(request.number for request in self.queue)})


@pytest.fixture
def made_up():
    """Make a `MadeUpEngine`."""
    return MadeUpEngine


@pytest.fixture
def asked():
    """Make requests of given lengths in tokens."""

    def make(*lengths: int) -> list[Request]:
        return [Request(i, "x", SamplingParams(max_tokens=tokens)) for i, tokens in enumerate(lengths)]

    return make
