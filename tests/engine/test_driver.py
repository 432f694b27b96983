"""The engine's thread: commands reach it at once, and every owner hears of an end exactly once."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from saguaro.algorithm.options import Sampling
from saguaro.engine.alarm import Alarm
from saguaro.engine.driver import Driver
from saguaro.engine.launch import wait_any
from saguaro.engine.sequence import RoundReport, Submission
from saguaro.engine.target import Failure
from saguaro.errors import ConfigError, RequestRefused, SaguaroError, WorkerDied

FOREVER, LONG = 3600.0, 30.0


class StillEngine:
    """Has events when a test says so; otherwise its poll sleeps until the alarm rings, however long that takes."""

    def __init__(self) -> None:
        self.alarm = Alarm()
        self.plan: Any = SimpleNamespace(mode="ar")
        self.thread = threading.current_thread()
        self.calls: list[Any] = []
        self.events: deque[Any] = deque()
        self.error: Exception | None = None

    def submit(self, submission: Submission) -> None:
        self.calls.append(("submit", submission.request))

    def abort(self, request: int) -> None:
        self.calls.append(("abort", request))

    def poll(self, seconds: float) -> list[Any]:
        assert threading.current_thread() is self.thread
        if self.error is not None:
            raise self.error
        if not self.events and not self.alarm.rang():
            wait_any([self.alarm], FOREVER)
            self.alarm.rang()
        found = list(self.events)
        self.events.clear()
        return found

    def close(self) -> None:
        self.calls.append("close")
        self.alarm.close()


class Told:
    """Remembers what the driver said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.lost: list[tuple[str, str]] = []
        self.gone: list[str] = []

    def deliver(self, batch: Any) -> list[str]:
        self.events += batch
        return [owner for owner, _ in batch if owner in self.gone]

    def lose(self, owners: Any, error: SaguaroError) -> None:
        self.lost += [(owner, f"{type(error).__name__}: {error}") for owner in owners]


def submission(number: int) -> Submission:
    return Submission(number, (1,), Sampling(), 8, frozenset())


def report(finish: str | None = None) -> RoundReport:
    return RoundReport([1], 0, 0, "none", 0, 0.0, 0.0, 0.0, 0.0, finish)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def driver(told: Told):
    driver: Driver[str] = Driver(StillEngine, deliver=told.deliver, lose=told.lose)  # type: ignore[arg-type]
    yield driver
    driver.stop().result(LONG)


def engine_of(driver: Driver[str]) -> StillEngine:
    return driver._engine  # type: ignore[return-value]


def happen(driver: Driver[str], *events: Any) -> None:
    """Let events happen, and wait until they were handed out."""
    driver.call(lambda engine: engine.events.extend(events)).result(LONG)  # type: ignore[attr-defined]
    driver.call(lambda engine: None).result(LONG)
    driver.call(lambda engine: None).result(LONG)


def test_a_command_wakes_a_poll_that_sleeps(driver: Driver[str]) -> None:
    assert [driver.call(lambda engine, i=i: i).result(LONG) for i in range(20)] == list(range(20))


def test_commands_come_in_order_from_any_thread(driver: Driver[str]) -> None:
    def work(first: int) -> None:
        for number in range(first, first + 50):
            driver.submit("owner", [submission(number)])
            driver.abort(number)

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    driver.call(lambda engine: None).result(LONG)
    calls = engine_of(driver).calls
    assert len(calls) == 400
    for number in [1000 * i + k for i in range(4) for k in range(50)]:
        assert calls.index(("submit", number)) < calls.index(("abort", number))


def test_events_go_to_their_owner_and_none_after_the_end(driver: Driver[str], told: Told) -> None:
    driver.submit("a", [submission(1), submission(2)])
    driver.submit("b", [submission(3)])
    ends = (2, report("stop"))
    happen(driver, (1, report()), ends, (3, report()), (2, report()), (9, report()))
    assert [(owner, event[0]) for owner, event in told.events] == [("a", 1), ("a", 2), ("b", 3)]
    assert driver.owners().result(LONG) == ["a", "b"]


def test_what_has_ended_is_not_aborted_and_what_is_aborted_is_silent(driver: Driver[str], told: Told) -> None:
    driver.submit("a", [submission(1), submission(2), submission(3)])
    happen(driver, (1, report("length")), Failure(2, "RequestRefused", "no."))
    for number in (1, 2, 3, 3, 77):
        driver.abort(number)
    happen(driver, (3, report()))
    assert [call for call in engine_of(driver).calls if call[0] == "abort"] == [("abort", 3)]
    assert len(told.events) == 2


def test_requests_of_an_owner_that_is_gone_end(driver: Driver[str], told: Told) -> None:
    driver.submit("a", [submission(1), submission(2)])
    told.gone.append("a")
    happen(driver, (1, report("stop")))
    assert [call for call in engine_of(driver).calls if call[0] == "abort"] == [("abort", 2)]


def test_the_error_of_a_call_is_the_callers(driver: Driver[str]) -> None:
    def fail(engine: Any) -> None:
        raise ConfigError("no such setting.")

    with pytest.raises(ConfigError, match="no such setting"):
        driver.call(fail).result(LONG)
    assert driver.call(lambda engine: 1).result(LONG) == 1


def test_stopping_tells_every_owner_and_refuses_what_comes_later(driver: Driver[str], told: Told) -> None:
    driver.submit("a", [submission(1), submission(2)])
    driver.call(lambda engine: None).result(LONG)
    blocked, release = threading.Event(), threading.Event()
    driver.call(lambda engine: (blocked.set(), release.wait(LONG)))
    blocked.wait(LONG)
    driver.submit("late", [submission(3)])
    waiting: Future[int] = driver.call(lambda engine: 1)
    assert driver.is_open
    ended = driver.stop()
    assert not driver.is_open
    release.set()
    ended.result(LONG)
    assert sorted(told.lost) == [
        (owner, "SaguaroError: the engine is closed; make a new one.") for owner in ("a", "late")
    ]
    assert engine_of(driver).calls[-1] == "close"
    with pytest.raises(SaguaroError, match="closed"):
        waiting.result(LONG)
    with pytest.raises(SaguaroError, match="closed"):
        driver.submit("b", [submission(4)])
    driver.abort(1)
    driver.stop().result(LONG)
    assert engine_of(driver).calls.count("close") == 1


@pytest.mark.parametrize("error", [WorkerDied("the target process ended (signal 9)."), RuntimeError("out of memory")])
def test_a_lost_engine_is_told_to_all_and_closed(
    driver: Driver[str], told: Told, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    driver.submit("a", [submission(1)])
    driver.call(lambda engine: setattr(engine, "error", error))
    driver._ended.result(LONG)
    [(owner, message)] = told.lost
    assert owner == "a"
    assert message.startswith("WorkerDied: the ")
    assert str(error).rstrip(".") in message
    assert not driver.is_open
    with pytest.raises(WorkerDied, match="make a new one"):
        driver.submit("b", [submission(2)])
    assert engine_of(driver).calls[-1] == "close"
    assert bool(caplog.records) == isinstance(error, RuntimeError)


def test_what_opening_raises_is_raised(told: Told) -> None:
    def refuse() -> Any:
        raise RequestRefused("not today.")

    with pytest.raises(RequestRefused, match="not today"):
        Driver(refuse, deliver=told.deliver, lose=told.lose)


def test_an_alarm_stays_on_until_asked_and_may_ring_closed() -> None:
    alarm = Alarm()
    assert not alarm.rang()
    alarm.ring()
    alarm.ring()
    wait_any([alarm], FOREVER)
    assert alarm.rang()
    assert not alarm.rang()
    alarm.close()
    alarm.close()
    alarm.ring()
