"""Alive, degraded and dead are told apart; a silent engine is asked once, whoever wants to know."""

import asyncio

from saguaro.errors import WorkerDied
from saguaro.server.health import Watch


def health(ask, patience=5.0):
    return asyncio.run(Watch(ask, patience=patience).health())


async def alive():
    return {"draft": {"pages": 1}}


async def alone():
    return {}


async def without_draft():
    return {"draft": None}


async def dead():
    raise WorkerDied("the target process ended (signal 9).")


async def silent():
    await asyncio.Event().wait()


def test_states():
    assert [health(ask)[0].status for ask in (alive, alone, without_draft, dead)] == [
        "alive",
        "alive",
        "degraded",
        "dead",
    ]
    assert [health(ask)[0].http_status for ask in (alive, without_draft, dead)] == [200, 200, 503]
    assert "signal 9" in health(dead)[0].reason


def test_silence_is_death():
    found, statistics = health(silent, patience=0.01)
    assert (found.status, statistics) == ("dead", None)
    assert "0.01 s" in found.reason


def test_one_question_serves_everyone():
    asked = []

    async def slow():
        asked.append(1)
        await asyncio.sleep(0.01)
        return {"draft": None}

    async def scene():
        watch = Watch(slow, patience=5.0)
        first = await asyncio.gather(*(watch.health() for _ in range(5)))
        return [*first, await watch.health()]

    assert {found.status for found, _ in asyncio.run(scene())} == {"degraded"}
    assert len(asked) == 1


def test_a_silent_engine_is_not_asked_again_and_nobody_waits_anew():
    asked = []

    async def stuck():
        asked.append(1)
        await asyncio.Event().wait()

    async def scene():
        watch = Watch(stuck, patience=0.05)
        await watch.health()
        begin = asyncio.get_running_loop().time()
        await watch.health()
        return asyncio.get_running_loop().time() - begin

    assert asyncio.run(scene()) < 0.05
    assert len(asked) == 1


def test_an_answer_does_not_outlive_the_engine():
    lives = [True]

    async def ask():
        return (await alive()) if lives[0] else (await dead())

    async def scene():
        watch = Watch(ask, patience=5.0, is_open=lambda: lives[0])
        before = await watch.health()
        lives[0] = False
        return [before[0].status, (await watch.health())[0].status]

    assert asyncio.run(scene()) == ["alive", "dead"]
