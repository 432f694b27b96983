"""A lost engine is replaced with back-off, a stuck one is found and ended, clients are told what follows."""

from __future__ import annotations

import asyncio

import pytest

from saguaro.engine.driver import LOST
from saguaro.errors import ConfigError, SaguaroError, WorkerDied
from saguaro.server import keeper
from saguaro.server.health import Watch
from saguaro.server.keeper import Keeper


class Engine:
    """An engine that is lost and stuck when a test says so."""

    def __init__(self, *, starts=(), immortal=False):
        self.error: SaguaroError | None = None
        self.starts = list(starts)  # what each try to start ends with; None is an engine
        self.immortal = immortal
        self.silent = asyncio.Event()
        self.killed: list[str] = []
        self.opened = 0

    @property
    def is_open(self):
        return self.error is None

    def kill(self, reason):
        self.killed.append(reason)
        if not self.immortal:
            self.lose(reason)

    def lose(self, reason):
        self.silent.clear()
        self.error = WorkerDied(f"{reason} {LOST}")

    async def reopen(self):
        self.opened += 1
        error = self.starts.pop(0) if self.starts else None
        if error is not None:
            raise error
        self.error = None

    async def statistics(self):
        while self.silent.is_set():
            await asyncio.sleep(0.001)
        if self.error is not None:
            raise self.error
        return {}


def kept(engine, policy="restart", patience=5.0):
    return Keeper(engine, Watch(engine.statistics, patience=patience), policy=policy, patience=patience)


@pytest.fixture
def pauses(monkeypatch):
    """The pauses before each start; they take no time."""
    found = []
    sleep = asyncio.sleep

    async def short(seconds):
        if seconds >= keeper.FIRST_PAUSE:
            found.append(seconds)
        await sleep(min(seconds, 0.002))

    monkeypatch.setattr(keeper.asyncio, "sleep", short)
    return found


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_lost_engines_are_replaced_and_each_pause_is_longer(pauses):
    async def scene():
        engine = Engine(starts=[None, ConfigError("no file."), None])
        looked = kept(engine)
        task = asyncio.create_task(looked.run())
        for number in (1, 2):
            engine.lose("the target process ended (signal 9).")
            await until(lambda number=number: looked.restarts == number)
            assert engine.is_open
        task.cancel()
        return engine.opened

    assert asyncio.run(scene()) == 3
    assert pauses == [0.5, 1.0, 2.0]


def test_one_that_lived_long_is_replaced_soon_again(pauses, monkeypatch):
    async def scene():
        engine = Engine()
        looked = kept(engine)
        task = asyncio.create_task(looked.run())
        for number in (1, 2):
            engine.lose("gone.")
            await until(lambda number=number: looked.restarts == number)
            looked._began -= 2 * keeper.LONGEST_PAUSE
        task.cancel()

    asyncio.run(scene())
    assert pauses == [0.5, 0.5]


def test_a_stuck_engine_is_ended_and_replaced(monkeypatch):
    monkeypatch.setattr(keeper, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(keeper, "GRACE_SECONDS", 0.01)

    async def scene():
        engine = Engine()
        looked = kept(engine, patience=0.04)
        task = asyncio.create_task(looked.run())
        engine.silent.set()
        await until(lambda: looked.restarts == 1)
        before = list(engine.killed)
        await asyncio.sleep(0.1)  # the new one answers
        task.cancel()
        return before, engine.killed

    before, after = asyncio.run(scene())
    assert before == after == ["the engine had said nothing for 0.04 s."]


def test_an_engine_that_answers_after_all_is_left_alone(monkeypatch):
    """A server that was stopped itself sees its own time-out first, and the answer a moment later."""
    monkeypatch.setattr(keeper, "GRACE_SECONDS", 0.05)

    async def scene():
        engine = Engine()
        looked = kept(engine, patience=0.02)
        engine.silent.set()
        asyncio.get_running_loop().call_later(0.04, engine.silent.clear)
        return await looked._is_stuck(), engine.killed

    assert asyncio.run(scene()) == (False, [])


def test_what_runs_in_this_process_cannot_be_ended(monkeypatch, caplog):
    monkeypatch.setattr(keeper, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(keeper, "KILL_SECONDS", 0.01)

    async def scene():
        engine = Engine(immortal=True)
        task = asyncio.create_task(kept(engine, patience=0.02).run())
        engine.silent.set()
        await until(lambda: engine.killed)
        await until(lambda: "cannot be ended" in caplog.text)
        task.cancel()

    asyncio.run(scene())


@pytest.mark.parametrize("policy", ["stay", "exit"])
def test_other_policies_end_the_looking(policy):
    async def scene():
        engine = Engine()
        engine.lose("gone.")
        async with asyncio.timeout(5):
            await kept(engine, policy).run()
        return engine.opened

    assert asyncio.run(scene()) == 0


@pytest.mark.parametrize(
    ("policy", "code", "words"),
    [("restart", "engine_restarting", "a new one is starting"), ("stay", "engine_lost", "start the server anew")],
)
def test_what_clients_are_told(policy, code, words):
    async def scene():
        engine = Engine()
        looked = kept(engine, policy)
        assert looked.refusal() is None
        engine.lose("the target process ended (signal 9).")
        return looked.refusal(), looked.told(engine.error)

    refused, told = asyncio.run(scene())
    for error in (refused, told):
        assert (error.status, error.code) == (503, code)
        assert "the target process ended (signal 9)" in error.message
        assert "make a new one" not in error.message
        assert error.message.endswith(".")
        assert ("retry-after" in error.headers()) == (policy == "restart")
    assert words in refused.message
