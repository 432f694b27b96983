"""Many clients at once, some of which leave, read slowly or send nonsense: every answer is right and nothing is left.

For seconds in this process, where tasks can be counted; for minutes against the real command, whose open files and
threads are counted. benchmarks/server_load.py measures with the same clients.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch
import uvicorn
from tests.server.conftest import served

from saguaro import LLM, AsyncLLM, SamplingParams
from saguaro.server.listening import open_socket
from saguaro.testing import server_process
from saguaro.testing.http_load import KINDS, Case, Found, run_load

STUCK = {**KINDS, "stuck": 0.03}  # some read nothing until they are left
PROMPTS = ("def f(x):", "The sun", "12345", "a", "abcabcabcabc")


def cases_of(llm: LLM, count: int, tokens: Sequence[int]) -> list[Case]:
    """Requests and what the target alone answers."""
    wanted = [
        (PROMPTS[seed % len(PROMPTS)], SamplingParams(temperature=0.9, seed=seed, max_tokens=most, ignore_eos=True))
        for seed, most in zip(range(count), tokens * count, strict=False)
    ]
    answers = llm.generate([prompt for prompt, _ in wanted], [params for _, params in wanted])
    return [
        Case(
            {"prompt": prompt, "temperature": 0.9, "seed": params.seed, "max_tokens": params.max_tokens,
             "ignore_eos": True},
            answer.text,
        )
        for (prompt, params), answer in zip(wanted, answers, strict=True)
    ]  # fmt: skip


def check(found: Found, kinds: Iterable[str] = KINDS) -> None:
    assert not found.wrong, found.wrong[:3]
    assert set(found.ended) == set(kinds)
    assert found.tokens > 0


class Watched(uvicorn.Server):
    """A server that tells what tasks its loop has; the clients run in a loop of their own."""

    def tasks(self) -> set[str]:
        """Names of the coroutines of all tasks."""
        return {str(task.get_coro()) for task in asyncio.all_tasks(self.loop)}

    async def serve(self, sockets: Any = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().serve(sockets)


def pages(llm: AsyncLLM) -> list[int]:
    """Rows, and pages that rows hold, of both sides; the draft reads its news first."""

    def look(engine: Any) -> list[int]:
        with torch.inference_mode():
            engine.draft.step()
        found = engine.statistics()
        return [found["running"], found["waiting"], found["pages_used"], found["draft"]["pages_used"]]

    looked: list[int] = llm._driver.call(look).result(30)
    return looked


def test_for_some_seconds_in_this_process(llm: AsyncLLM, alone: LLM) -> None:
    server = served(llm, max_queue=64)
    cases = cases_of(alone, 8, (8, 24, 60))
    with open_socket("127.0.0.1", 0) as listener:
        watched = Watched(uvicorn.Config(server.app, log_config=None, lifespan="off", ws="none", timeout_keep_alive=1))
        thread = threading.Thread(target=watched.run, kwargs={"sockets": [listener]})
        thread.start()
        while not watched.started:
            time.sleep(0.01)
        try:
            before = watched.tasks()
            found = asyncio.run(run_load(*listener.getsockname(), cases, clients=16, seconds=1.0))
            deadline = time.monotonic() + 30
            while server.front.calls or watched.tasks() - before or any(pages(llm)):
                assert time.monotonic() < deadline, (server.front.calls, watched.tasks(), pages(llm))
                time.sleep(0.02)
        finally:
            watched.should_exit = True
            thread.join()
    check(found)
    assert server.front.gate.inside == 0


@pytest.mark.slow
@pytest.mark.processes
def test_for_three_minutes_against_the_real_command() -> None:
    sizes = {"dtype": "float32", "max_model_len": 4096, "channel": "loopback"}
    with LLM(server_process.TARGET, mode="ar", **sizes) as alone:
        cases = cases_of(alone, 32, (8, 24, 64, 200))
    with server_process.serving(*server_process.SSD, "--max-batch", "16", "--read-seconds", "5") as server:
        host, port = "127.0.0.1", server.port
        check(asyncio.run(run_load(host, port, cases, clients=16, seconds=5)))  # what is opened once is open now
        server_process.wait_for(server.idle)
        before = server.held()
        check(asyncio.run(run_load(host, port, cases, clients=64, seconds=180, kinds=STUCK, seed=1)), STUCK)
        server_process.wait_for(server.idle)
        server_process.wait_for(lambda: server.held().files <= before.files)
        after = server.held()
        assert after.threads <= before.threads
        assert after.memory - before.memory < 64 << 20
        assert server.health() == "alive"
        assert server.metric("draft_restarts_total") == server.metric("engine_restarts_total") == 0
        assert server.stop() == 0
