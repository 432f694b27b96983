"""Clients that leave: their requests end at once, everything is given back, and nothing else notices."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.lossless.conftest import DRAFT, TARGET
from tests.reports.conftest import DISTINCT, PROMPT, engine_arguments

from saguaro import LLM, AsyncLLM, SamplingParams
from saguaro.protocol.messages import Release

LONG = SamplingParams(temperature=1.0, seed=2, max_tokens=900, ignore_eos=True)  # nobody reads it to its end


class Watch:
    """Counts what an engine in this process is told, and looks at what it holds."""

    def __init__(self, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = engine
        self.aborts: list[int] = []
        self.releases: Counter[int] = Counter()
        self.rounds = self.rounds_at_abort = 0
        abort, run = engine.abort, engine.target._run
        monkeypatch.setattr(engine, "abort", lambda number: (self._aborted(number), abort(number)))
        monkeypatch.setattr(engine.target, "_run", lambda work: (self._round(), run(work)))
        if engine.port is not None:
            send = engine.port.send
            monkeypatch.setattr(engine.port, "send", lambda message: (self._sent(message), send(message))[1])

    def _aborted(self, number: int) -> None:
        self.aborts.append(number)
        self.rounds_at_abort = self.rounds

    def _round(self) -> None:
        self.rounds += 1
        time.sleep(0.001)  # the clients share one interpreter with the model

    def _sent(self, message: Any) -> None:
        if isinstance(message, Release):
            self.releases[message.request] += 1

    def held(self, engine: Any) -> tuple[int, ...]:
        """Rows and pages that are not free, of the target and of the draft."""
        pool = engine.target.scheduler.pool
        found = [len(engine.target.scheduler.running), pool.num_pages - pool.available]
        if engine.port is not None:
            with torch.inference_mode():
                engine.draft.step()  # it reads its news
            found += [len(engine.draft.rows), engine.draft.pool.num_pages - engine.draft.pool.available]
        return tuple(found)


@pytest.fixture(scope="module")
def async_llm(mode: str) -> Iterator[AsyncLLM]:
    """Room for requests that are certainly left before their end."""
    opened = AsyncLLM(**engine_arguments(mode, max_model_len=1024))
    yield opened
    opened.close()


@pytest.fixture
def watch(async_llm: AsyncLLM, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(async_llm._driver._engine, monkeypatch)


async def leave_by_break(llm: AsyncLLM, params: SamplingParams, pieces: int) -> None:
    seen = 0
    async for _ in llm.stream(PROMPT, params):
        seen += 1
        if seen == pieces:
            break


async def leave_by_aclose(llm: AsyncLLM, params: SamplingParams, pieces: int) -> None:
    stream = llm.stream(PROMPT, params)
    for _ in range(pieces):
        await anext(stream)
    await stream.aclose()
    assert [delta async for delta in stream] == []


async def leave_by_cancel(llm: AsyncLLM, params: SamplingParams, pieces: int) -> None:
    enough = asyncio.Event()

    async def read() -> None:
        seen = 0
        try:
            async for _ in llm.stream(PROMPT, params):
                seen += 1
                if seen == pieces:
                    enough.set()
        finally:
            enough.set()

    task = asyncio.create_task(read())
    await enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def leave_a_generate(llm: AsyncLLM, params: SamplingParams, pieces: int) -> None:
    task = asyncio.create_task(llm.generate(PROMPT, params))
    for _ in range(pieces):
        await llm.statistics()  # each takes a turn of the engine's thread
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


WAYS = [leave_by_break, leave_by_aclose, leave_by_cancel, leave_a_generate]


async def held(llm: AsyncLLM, watch: Watch) -> tuple[int, ...]:
    return await asyncio.wrap_future(llm._driver.call(watch.held))


@pytest.mark.parametrize("leave", WAYS)
def test_B65_a_closed_stream_ends_its_request_at_once(
    async_llm: AsyncLLM, watch: Watch, leave: Callable[..., Any]
) -> None:
    async def scene() -> None:
        await leave(async_llm, LONG, 3)
        assert not any(await held(async_llm, watch))
        assert watch.rounds == watch.rounds_at_abort
        assert len(watch.aborts) == 1

    asyncio.run(scene())


def test_B65_the_synchronous_stream_too(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with LLM(**engine_arguments(mode, max_model_len=1024)) as llm:
        watch = Watch(llm._engine, monkeypatch)
        stream = llm.stream(PROMPT, LONG)
        for _ in range(3):
            next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert not any(watch.held(llm._engine))
        assert len(watch.aborts) == 1
        assert len(llm.generate(PROMPT, replace(LONG, max_tokens=9))[0].token_ids) == 9
        assert len(watch.aborts) == 1


def test_B66_clients_that_leave_at_any_moment_lock_nothing(
    async_llm: AsyncLLM, watch: Watch, distinct_ids: list[int]
) -> None:
    chance = random.Random(66)

    async def scene() -> None:
        each = [chance.choice(WAYS)(async_llm, replace(LONG, seed=i), chance.randint(1, 8)) for i in range(20)]
        stays = asyncio.create_task(async_llm.generate(PROMPT, DISTINCT))
        await asyncio.gather(*each)
        assert (await stays)[0].token_ids == distinct_ids
        assert not any(await held(async_llm, watch))
        assert (await async_llm.generate(PROMPT, DISTINCT))[0].token_ids == distinct_ids
        assert len(watch.aborts) == len(set(watch.aborts)) == 20

    asyncio.run(scene())


@pytest.mark.processes
def test_B66_the_same_between_processes(distinct_ids: list[int]) -> None:
    chance = random.Random(67)
    sizes = {"dtype": "float32", "max_batch": 4, "max_model_len": 4096}
    endless = replace(LONG, max_tokens=4000)  # far from its end when its client has read a few pieces

    async def scene() -> None:
        async with AsyncLLM(TARGET, DRAFT, mode="ssd", lookahead=3, budget=6, **sizes) as llm:
            used = (await llm.statistics())["pages_used"]
            each = [chance.choice(WAYS)(llm, replace(endless, seed=i), chance.randint(1, 6)) for i in range(20)]
            await asyncio.gather(*each)
            statistics = await llm.statistics()
            assert (statistics["running"], statistics["pages_used"]) == (0, used)
            assert (await llm.generate(PROMPT, DISTINCT))[0].token_ids == distinct_ids
            assert statistics["draft_restarts"] == 0
            engine: Any = llm._driver._engine
        assert engine._target.process.returncode == 0
        assert engine.supervisor.current is None

    asyncio.run(scene())


def test_B67_only_what_runs_is_aborted_and_once(async_llm: AsyncLLM, watch: Watch) -> None:
    first = next(async_llm._numbers) + 1
    short = replace(LONG, max_tokens=3)

    async def read(number: int) -> None:
        async with asyncio.timeout(120):
            deltas = [delta async for delta in async_llm.stream(PROMPT, replace(short, seed=number))]
        assert deltas[-1].finish_reason == "length"

    async def scene() -> None:
        await asyncio.gather(*(read(number) for number in range(100)))
        assert not any(await held(async_llm, watch))
        assert watch.aborts == []
        for number in range(10):
            await WAYS[number % len(WAYS)](async_llm, replace(LONG, seed=number), 2)
        assert not any(await held(async_llm, watch))
        assert len(watch.aborts) == len(set(watch.aborts)) == 10

    asyncio.run(scene())
    assert set(watch.releases.values()) <= {1}  # an aborted one may never have been admitted
    assert watch.engine.port is None or set(watch.releases) | set(watch.aborts) == set(range(first, first + 110))


def test_B67_a_stop_string_ends_the_engines_part_once(async_llm: AsyncLLM, watch: Watch) -> None:
    """The engine knows ids only, so it has to be told; an end that it saw itself needs no word."""

    async def scene() -> None:
        [free] = await async_llm.generate(PROMPT, replace(LONG, max_tokens=20))
        assert watch.aborts == []
        stopped = replace(LONG, stop=free.text[4:7])
        [whole] = await async_llm.generate(PROMPT, stopped)
        deltas = [delta async for delta in async_llm.stream(PROMPT, stopped)]
        assert whole.finish_reason == deltas[-1].finish_reason == "stop"
        assert not any(await held(async_llm, watch))
        assert len(watch.aborts) == len(set(watch.aborts)) == 2

    asyncio.run(scene())
