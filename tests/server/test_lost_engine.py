"""An engine that is gone: its requests end with an error, later ones get 503, and the server stays or ends."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.server.conftest import arguments, events, served

from saguaro import AsyncLLM, async_llm
from saguaro.errors import WorkerDied
from saguaro.server import keeper
from saguaro.server.listening import address_of, open_socket
from saguaro.server.options import ServerOptions
from saguaro.server.serving import serve

BODY = {"prompt": "a", "max_tokens": 240, "ignore_eos": True}
PATH = "/v1/completions"


def gone(*_):
    raise WorkerDied("the target process ended (signal 9).")


async def lose(llm: AsyncLLM) -> None:
    """The engine's thread finds its target gone."""
    await asyncio.wrap_future(llm._driver.call(lambda engine: setattr(engine, "poll", gone)))


@pytest.fixture
def mortal():
    opened = AsyncLLM(**arguments("ar"))
    yield opened
    opened.close()


def test_requests_under_way_and_later_ones(mortal):
    server = served(mortal)

    async def scene(client):
        assert (await client.get("/health")).json()["status"] == "alive"
        calls = [asyncio.create_task(client.post(PATH, json={**BODY, "stream": stream})) for stream in (False, True)]
        while server.front.gate.inside < 2:
            await asyncio.sleep(0.001)
        await lose(mortal)
        return [await call for call in calls], await client.post(PATH, json=BODY), await client.get("/health")

    (whole, streamed), later, health = server.run(scene)
    assert [each.status_code for each in (whole, later, health)] == [503, 503, 503]
    assert "signal 9" in whole.json()["error"]["message"]
    assert "signal 9" in events(streamed.text)[-1]["error"]["message"]
    assert health.json()["status"] == "dead"
    assert 'saguaro:engine_state{state="dead"} 1.0' in server.get("/metrics").text
    assert server.front.gate.inside == 0


def test_a_server_that_is_told_to_end_with_its_engine(mortal):
    options = ServerOptions(names=("toy",), on_engine_death="exit", drain_seconds=60)
    said = []

    def kill():
        mortal._driver.call(lambda engine: setattr(engine, "poll", gone))

    with open_socket("127.0.0.1", 0) as listener:
        assert address_of(listener).startswith("http://127.0.0.1:")
        begin = time.monotonic()
        threading.Timer(0.1, kill).start()
        assert serve(mortal, options, listener, ready=lambda: said.append("ready")) == 1
    assert said == ["ready"]
    assert time.monotonic() - begin < 60  # nothing runs, so nothing is waited for


def test_a_new_engine_takes_the_place_of_a_lost_one(mortal, monkeypatch):
    monkeypatch.setattr(keeper, "FIRST_PAUSE", 0.2)
    server = served(mortal)
    body = {**BODY, "max_tokens": 20, "seed": 1}

    async def scene(client):
        keeping = asyncio.create_task(server.front.keeper.run())
        before = await client.post(PATH, json=body)
        await lose(mortal)
        while mortal.is_open:
            await asyncio.sleep(0.001)
        meanwhile, health = await client.post(PATH, json=body), await client.get("/health")
        while not mortal.is_open:
            await asyncio.sleep(0.01)
        after, alive = await client.post(PATH, json=body), await client.get("/health")
        keeping.cancel()
        return before, meanwhile, health, after, alive, await client.get("/metrics")

    before, meanwhile, health, after, alive, page = server.run(scene)
    assert (meanwhile.status_code, meanwhile.json()["error"]["code"]) == (503, "engine_restarting")
    assert int(meanwhile.headers["retry-after"]) >= 1
    assert health.json()["status"] == "dead"
    assert "a new one is starting" in health.json()["reason"]
    assert after.json()["choices"][0]["text"] == before.json()["choices"][0]["text"]
    assert alive.json()["status"] == "alive"
    assert "saguaro:engine_restarts_total 1.0" in page.text


def engine_threads():
    return [each for each in threading.enumerate() if each.name in ("saguaro-engine", "saguaro-opening")]


def test_an_engine_that_nobody_wants_any_more_ends(mortal, monkeypatch):
    """The server ends while a new engine is being made."""
    gate, make = threading.Event(), async_llm.open_engine
    monkeypatch.setattr(async_llm, "open_engine", lambda plan: gate.wait(30) and make(plan))

    async def scene():
        await lose(mortal)
        while mortal.is_open:
            await asyncio.sleep(0.001)
        opening = asyncio.create_task(mortal.reopen())
        while not any(each.name == "saguaro-opening" for each in engine_threads()):
            await asyncio.sleep(0.001)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        gate.set()

    before = engine_threads()
    asyncio.run(scene())
    deadline = time.monotonic() + 30
    while len(engine_threads()) >= len(before):  # the lost one has ended, too
        assert time.monotonic() < deadline
        time.sleep(0.01)
