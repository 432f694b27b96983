"""`AsyncLLM`: many clients at once, slow readers, ends of every kind. The engine runs in this process unless said."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from dataclasses import replace
from typing import Any

import pytest
from tests.lossless.conftest import DRAFT, PROMPTS, TARGET, params
from tests.reports.conftest import MODES, check_counters, check_stream, engine_arguments

from saguaro import LLM, AsyncLLM, ConfigError, Delta, RequestRefused, SaguaroError, SamplingParams, WorkerDied
from saguaro.choices import merged
from saguaro.request import TokenLogprob

LONG = SamplingParams(temperature=1.0, seed=4, max_tokens=900, ignore_eos=True)
PATIENCE = 60.0  # seconds after which a client that waits for ever is a failure


@pytest.fixture(scope="module")
def wanted() -> dict[int, list[int]]:
    """What the target alone gives: token ids by seed."""
    with LLM(**engine_arguments("ar")) as llm:
        return {i: llm.generate(PROMPTS[i % 5], params(1.0, seed=i))[0].token_ids for i in range(12)}


@pytest.fixture(scope="module", params=MODES)
def llm(request: pytest.FixtureRequest):
    opened = AsyncLLM(**engine_arguments(request.param))
    yield opened
    opened.close()


@pytest.fixture
def roomy():
    """An engine for requests that are ended before their end."""
    opened = AsyncLLM(**engine_arguments("ssd-mixed", max_model_len=1024))
    yield opened
    opened.close()


async def patiently(awaitable: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await awaitable


async def first_piece(llm: AsyncLLM, wanted: SamplingParams = LONG) -> Any:
    stream = llm.stream([1, 2, 3], wanted)
    await patiently(anext(stream))
    return stream


def test_many_clients_at_once_get_what_they_get_alone(llm: AsyncLLM, wanted: dict[int, list[int]]) -> None:
    async def client(i: int) -> list[int]:
        if i % 2:
            [whole] = await llm.generate(PROMPTS[i % 5], params(1.0, seed=i))
            return whole.token_ids
        return [token async for delta in llm.stream(PROMPTS[i % 5], params(1.0, seed=i)) for token in delta.token_ids]

    async def scene() -> list[list[int]]:
        return await patiently(asyncio.gather(*(client(i) for i in range(12))))

    assert asyncio.run(scene()) == list(wanted.values())


def test_a_stream_says_what_generate_says(llm: AsyncLLM) -> None:
    asked = replace(params(1.0), logprobs=2, stop=("qqq",))

    async def scene() -> None:
        [whole] = await llm.generate(PROMPTS[1], asked)
        check_stream([delta async for delta in llm.stream(PROMPTS[1], asked)], whole)
        check_counters(whole, llm.mode)

    asyncio.run(scene())


def test_choices_come_prompt_by_prompt(llm: AsyncLLM) -> None:
    found = asyncio.run(llm.generate(PROMPTS[:2], replace(params(1.0), n=2)))
    assert [(c.prompt_token_ids, c.index) for c in found] == [(p, i) for p in PROMPTS[:2] for i in range(2)]


def test_one_stream_a_choice_whole_or_in_pieces(llm: AsyncLLM) -> None:
    asked = replace(params(1.0), n=3)

    async def scene() -> tuple[Any, ...]:
        streams = llm.streams(PROMPTS[0], asked)
        assert not any(stream.progress.tokens for stream in streams)
        whole = await patiently(asyncio.gather(*(stream.completion() for stream in streams)))
        [first, *_] = llm.streams(PROMPTS[0], asked)
        pieces = [token async for delta in first for token in delta.token_ids]
        return whole, pieces, first.progress.finish, await llm.generate(PROMPTS[0], asked)

    whole, pieces, finish, wanted = asyncio.run(scene())
    assert [each.token_ids for each in whole] == [each.token_ids for each in wanted]
    assert [each.index for each in whole] == [0, 1, 2]
    assert (pieces, finish) == (wanted[0].token_ids, wanted[0].finish_reason)
    with pytest.raises(RequestRefused, match="the prompt is empty"):
        llm.streams([])


def test_a_whole_answer_that_nobody_waits_for_ends(llm: AsyncLLM) -> None:
    async def scene() -> dict[str, Any]:
        [stream] = llm.streams([1, 2, 3], LONG)
        task = asyncio.create_task(stream.completion())
        while not stream.progress.tokens:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await llm.statistics()

    assert asyncio.run(scene())["running"] == 0


def test_what_a_server_must_know(llm: AsyncLLM) -> None:
    assert (llm.context, llm.max_batch, llm.is_open) == (128, 5, True)


def test_a_chat_is_the_rendered_prompt(llm: AsyncLLM) -> None:
    messages = [{"role": "user", "content": "hi"}]
    answer = asyncio.run(llm.chat(messages, params(0.0)))
    [same] = asyncio.run(llm.generate(llm.chat_prompt(messages), params(0.0)))
    assert answer.token_ids == same.token_ids


def test_what_cannot_run_is_refused_at_once(llm: AsyncLLM) -> None:
    with pytest.raises(RequestRefused, match="the prompt is empty"):
        llm.stream([])
    with pytest.raises(RequestRefused, match="n is 2"):
        llm.stream([1], SamplingParams(n=2))
    with pytest.raises(RequestRefused, match="outside"):
        asyncio.run(llm.generate([[1], [999]]))
    with pytest.raises(ConfigError, match="cannot be changed"):
        asyncio.run(llm.configure(dtype="int8"))
    with pytest.raises(ConfigError, match="lookahead"):
        AsyncLLM(TARGET, lookahed=3)


def test_what_the_engine_refuses_reaches_its_client_alone(llm: AsyncLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm._intake, "vocab", 1000)

    async def scene() -> list[Any]:
        calls = [llm.generate([999]), llm.generate([1], params(0.0)), llm.generate([[1, 2], [999]], LONG)]
        return await patiently(asyncio.gather(*calls, return_exceptions=True))

    refused, served, both = asyncio.run(scene())
    assert isinstance(refused, RequestRefused)
    assert isinstance(both, RequestRefused)
    assert len(served[0].token_ids) == 14
    assert asyncio.run(llm.statistics())["running"] == 0


def test_a_slow_reader_holds_one_piece_and_stops_nobody(llm: AsyncLLM) -> None:
    asked = replace(params(1.0, max_tokens=100), logprobs=1)

    async def scene() -> None:
        [whole] = await llm.generate(PROMPTS[0], asked)
        slow = llm.stream(PROMPTS[0], asked)
        pieces = [await anext(slow)]
        assert slow.client is not None
        while slow.client.open:
            await patiently(llm.generate(PROMPTS[1], params(1.0)))
        pieces += [delta async for delta in slow]
        check_stream(pieces, whole)
        assert len(pieces) <= 2
        assert pieces[-1].metrics is not None
        assert pieces[-1].metrics.rounds > 2
        assert 1 + sum(pieces[-1].metrics.round_tokens) == len(whole.token_ids)

    asyncio.run(scene())


def test_pieces_merge_in_order() -> None:
    pieces = [Delta(str(i), [i], None, [f"o{i}"], None, [TokenLogprob(i, -1.0)]) for i in range(3)]
    pieces.append(replace(pieces.pop(), finish_reason="stop"))
    whole = merged(merged(pieces[0], pieces[1]), pieces[2])
    assert (whole.text, whole.token_ids, whole.origins) == ("012", [0, 1, 2], ["o0", "o1", "o2"])
    assert [entry.token_id for entry in whole.logprobs or []] == [0, 1, 2]
    assert whole.finish_reason == "stop"


def test_a_piece_in_pieces_of_one_token() -> None:
    entries, rounds = [TokenLogprob(i, -1.0) for i in (5, 6, 7)], [{"round": 1}]
    whole = Delta("ab?", [5, 6, 7], "stop", ["hit", "hit", "bonus"], None, entries, rounds, ["a", "", "b"])
    found = list(whole.by_token())
    assert [each.text for each in found] == ["a", "", "b?"]  # what was held back comes with the end
    assert [each.token_ids for each in found] == [[5], [6], [7]]
    assert [each.origins for each in found] == [["hit"], ["hit"], ["bonus"]]
    assert [each.logprobs for each in found] == [[entry] for entry in entries]
    assert [each.finish_reason for each in found] == [None, None, "stop"]
    assert [each.rounds for each in found] == [rounds, None, None]
    assert list(found[2].by_token()) == [found[2]]


def test_abort_ends_streams_and_completions_as_answers(roomy: AsyncLLM) -> None:
    async def scene() -> None:
        stream, other = await first_piece(roomy), await first_piece(roomy, replace(LONG, seed=5))
        task = asyncio.create_task(roomy.generate([[1, 2], [3]], replace(LONG, logprobs=0)))
        await roomy.statistics()
        await roomy.abort(stream)
        pieces = [delta async for delta in stream]
        assert [delta.finish_reason for delta in pieces] == [None] * (len(pieces) - 1) + ["abort"]
        await patiently(anext(other))
        await roomy.abort()
        for completion in await patiently(task):
            assert completion.finish_reason == "abort"
            assert len(completion.token_ids) < LONG.max_tokens
            assert len(completion.logprobs or []) == len(completion.token_ids) == len(completion.origins)
        assert [delta.finish_reason async for delta in other][-1] == "abort"
        assert (await roomy.statistics())["running"] == 0

    asyncio.run(scene())


def test_a_stream_that_nobody_holds_ends(roomy: AsyncLLM) -> None:
    async def scene() -> None:
        stream = await first_piece(roomy)
        del stream
        gc.collect()
        assert (await roomy.statistics())["running"] == 0

    asyncio.run(scene())


def test_closing_ends_what_runs_with_an_error(roomy: AsyncLLM) -> None:
    async def scene() -> None:
        stream = await first_piece(roomy)
        task = asyncio.create_task(roomy.generate([1], LONG))
        await roomy.statistics()
        await patiently(roomy.aclose())
        with pytest.raises(SaguaroError, match="closed"):
            await patiently(task)
        with pytest.raises(SaguaroError, match="closed"):
            async for _ in stream:
                pass
        assert [delta async for delta in stream] == []
        for late in (roomy.generate([1]), anext(roomy.stream([1])), roomy.statistics(), roomy.configure(lookahead=1)):
            with pytest.raises(SaguaroError, match="closed"):
                await patiently(late)
        await roomy.aclose()
        roomy.close()

    asyncio.run(scene())


def test_a_failing_engine_is_told_to_every_client(roomy: AsyncLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> bool:
        raise RuntimeError("out of memory")

    async def scene() -> None:
        streams = [await first_piece(roomy, replace(LONG, seed=i)) for i in range(3)]
        task = asyncio.create_task(roomy.generate([[1], [2]], LONG))
        await roomy.statistics()
        monkeypatch.setattr(roomy._driver._engine.target, "step", fail)
        with pytest.raises(WorkerDied, match="out of memory"):
            await patiently(task)
        for stream in streams:
            with pytest.raises(WorkerDied, match="out of memory"):
                async for _ in stream:
                    pass
        with pytest.raises(WorkerDied, match="make a new one"):
            await patiently(roomy.generate([1]))

    asyncio.run(scene())


def test_an_error_in_the_text_reaches_the_client(roomy: AsyncLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(token: int) -> bytes:
        raise KeyError(token)

    async def scene() -> None:
        monkeypatch.setattr(roomy.tokenizer, "token_bytes", fail)
        with pytest.raises(KeyError):
            await patiently(roomy.generate([1], LONG))
        assert (await roomy.statistics())["running"] == 0

    asyncio.run(scene())


def test_one_engine_serves_loops_in_turn_and_at_once(roomy: AsyncLLM) -> None:
    """Also one that was closed under its clients: their requests end."""

    def elsewhere(found: list[Any]) -> None:
        found += asyncio.run(roomy.generate([1, 2], params(0.0)))

    loop = asyncio.new_event_loop()
    stream = loop.run_until_complete(first_piece(roomy))
    found: list[Any] = []
    thread = threading.Thread(target=elsewhere, args=(found,))
    thread.start()
    [here] = loop.run_until_complete(roomy.generate([1, 2], params(0.0)))
    thread.join()
    assert found[0].token_ids == here.token_ids
    loop.close()

    async def scene() -> None:
        while (await roomy.statistics())["running"]:
            await asyncio.sleep(0)
        assert len((await roomy.generate([1, 2], params(0.0)))[0].token_ids) == 14

    asyncio.run(patiently(scene()))
    del stream


def test_an_engine_that_nobody_holds_ends() -> None:
    llm = AsyncLLM(**engine_arguments("ar"))
    ended = llm._driver._ended
    del llm
    gc.collect()
    ended.result(PATIENCE)


async def open_processes() -> AsyncLLM:
    sizes = {"dtype": "float32", "max_batch": 4, "max_model_len": 1024}
    return await asyncio.to_thread(AsyncLLM, TARGET, DRAFT, mode="ssd", lookahead=3, budget=6, **sizes)


@pytest.mark.processes
def test_a_dead_target_is_told_to_every_client() -> None:
    async def scene() -> None:
        async with await open_processes() as llm:
            streams = [await first_piece(llm, replace(LONG, seed=i)) for i in range(3)]
            tasks = [asyncio.create_task(llm.generate([1], replace(LONG, seed=i))) for i in range(3)]
            engine: Any = llm._driver._engine
            os.kill(engine._target.process.pid, signal.SIGKILL)
            for result in await patiently(asyncio.gather(*tasks, return_exceptions=True)):
                assert isinstance(result, WorkerDied)
            for stream in streams:
                with pytest.raises(WorkerDied, match="target process ended"):
                    async for _ in stream:
                        pass
            with pytest.raises(WorkerDied, match="make a new one"):
                await patiently(llm.generate([1]))
        assert engine.supervisor.current is None

    asyncio.run(scene())


@pytest.mark.processes
def test_an_idle_engine_notices_that_its_target_died_and_goes_on_without_its_draft() -> None:
    async def scene() -> None:
        llm = await open_processes()
        engine: Any = llm._driver._engine
        os.kill(engine.supervisor.current.worker.process.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while (await llm.statistics())["draft_restarts"] == 0:  # nobody asks for anything meanwhile
                await asyncio.sleep(0.05)
        assert len((await patiently(llm.generate([1], params(0.0))))[0].token_ids) == 14
        os.kill(engine._target.process.pid, signal.SIGKILL)
        await patiently(asyncio.wrap_future(llm._driver._ended))
        with pytest.raises(WorkerDied, match="target process ended"):
            await llm.generate([1])
        await llm.aclose()

    asyncio.run(scene())
