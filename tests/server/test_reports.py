"""What users of other servers report (docs of the project name the rows): usage, streams, health, processes, set-up."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.conftest import Server, events, served

from saguaro.async_llm import AsyncLLM
from saguaro.testing.server_process import AR, ServerProcess

TEXT = "/v1/completions"


def counted(server: Server) -> float:
    """Tokens of answers by `/metrics`."""
    families = text_string_to_metric_families(server.get("/metrics").text)
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    return samples["saguaro:generation_tokens_total"]


def test_B24_B37_usage_is_what_was_given_and_what_is_counted(llm_of_mode: AsyncLLM) -> None:
    """Whatever ends an answer, and however many tokens a chunk holds."""
    server, drawn = served(llm_of_mode), random.Random(5)
    text = server.post(TEXT, {"prompt": "ab", "max_tokens": 60, "seed": 3, "ignore_eos": True}).json()
    said = text["choices"][0]["text"]
    for _ in range(3):
        begin, most = drawn.randrange(len(said) - 2), drawn.randint(1, 60)
        asked = {"prompt": "ab", "max_tokens": most, "seed": 3, "ignore_eos": True, "stop": said[begin : begin + 2]}
        before = counted(server)
        told = {"stream": True, "stream_options": {"include_usage": True}, "saguaro": {"rounds": True}}
        *chunks, last, done = events(server.post(TEXT, {**asked, **told}).text)
        choices = [chunk["choices"][0] for chunk in chunks]
        rounds = [each for choice in choices for each in choice.get("saguaro", {"rounds": []})["rounds"]]
        ids = [token["id"] for each in rounds for token in each["tokens"]]
        usage = last["usage"]
        assert (last["choices"], done) == ([], "[DONE]")
        assert usage["completion_tokens"] == len(ids) == counted(server) - before <= most
        whole = server.post(TEXT, asked).json()
        assert whole["usage"] == usage
        assert whole["choices"][0]["text"] == "".join(choice["text"] for choice in choices)


@pytest.mark.parametrize("path", [TEXT, "/v1/chat/completions"])
def test_B37_a_chunk_for_each_token_where_that_is_asked_for(llm_of_mode: AsyncLLM, path: str) -> None:
    server, chat = served(llm_of_mode), path != TEXT
    asked: dict[str, Any] = {"max_tokens": 40, "seed": 3, "ignore_eos": True, "stream": True}
    asked |= (
        {"messages": [{"role": "user", "content": "ab"}], "logprobs": True} if chat else {"prompt": "ab", "logprobs": 0}
    )

    def choices(**more: Any) -> list[dict[str, Any]]:
        return [chunk["choices"][0] for chunk in events(server.post(path, {**asked, **more}).text)[:-1]]

    def tokens(choice: dict[str, Any]) -> int:
        return len((choice["logprobs"] or {}).get("content" if chat else "tokens", []))

    def text(found: list[dict[str, Any]]) -> str:
        return "".join(choice["delta"].get("content", "") if chat else choice["text"] for choice in found)

    rounds, each = choices(), choices(stream_options={"each_token": True})
    assert text(each) == text(rounds)
    assert sum(map(tokens, rounds)) == sum(map(tokens, each)) == 40
    assert {tokens(choice) for choice in each} <= {0, 1}
    assert llm_of_mode.mode == "ar" or max(map(tokens, rounds)) > 1  # otherwise it showed nothing
    assert [choice["finish_reason"] for choice in each].count("length") == 1
    if not chat:
        offsets = [choice["logprobs"]["text_offset"][0] for choice in each if tokens(choice)]
        assert offsets == [at for choice in rounds if tokens(choice) for at in choice["logprobs"]["text_offset"]]


def test_B81_health_does_not_say_alive_while_the_engines_loop_is_frozen(llm: AsyncLLM) -> None:
    server, release = served(llm, patience=0.2), threading.Event()

    async def scene(client: Any) -> list[Any]:
        before = await client.get("/health")
        server.front.watch._known = None  # what it said a moment ago
        frozen = asyncio.wrap_future(llm._driver.call(lambda engine: release.wait(30)))
        during = await client.get("/health")
        release.set()
        await frozen
        while (after := await client.get("/health")).status_code != 200:  # the answer to the old question is on its way
            await asyncio.sleep(0.01)
        return [before, during, after]

    found = server.run(scene)
    assert [(each.status_code, each.json()["status"]) for each in found] == [
        (200, "alive"), (503, "dead"), (200, "alive"),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.processes
def test_B83_servers_that_start_at_the_same_moment_do_not_meet() -> None:
    servers = [ServerProcess("--port", "0", *AR) for _ in range(4)]
    try:
        assert len({server.url for server in servers}) == 4
        late = ServerProcess("--port", str(servers[0].port), *AR)
        assert late.process.wait(60) == 2
        assert "is taken" in late.kill()[1]
        body = {"prompt": "a", "max_tokens": 20, "seed": 1, "ignore_eos": True}
        answers = [server.post(TEXT, body).json()["choices"][0]["text"] for server in servers]
        assert len(set(answers)) == 1
        assert servers[0].stop() == 0
        assert [server.health() for server in servers[1:]] == ["alive"] * 3
    finally:
        for server in servers:
            server.kill()


def test_R15_nothing_ends_processes_by_name(root: Path) -> None:
    by_name = re.compile(r"pkill|killall|process_iter|taskkill")
    files = [path for folder in ("src", "scripts", "benchmarks") for path in (root / folder).rglob("*.py")]
    assert len(files) > 100
    assert not [path.name for path in files if by_name.search(path.read_text("utf-8"))]


@pytest.mark.slow
def test_R17_no_variable_of_ours_is_needed(root: Path) -> None:
    program = (
        "from saguaro import LLM, SamplingParams\n"
        "with LLM('toy:llama', mode='ar') as llm:\n"
        "    print(len(llm.generate('a', SamplingParams(max_tokens=5, ignore_eos=True))[0].token_ids))"
    )
    plain = {name: os.environ[name] for name in ("PATH", "HOME")}  # where a compiler and the compiled kernels are
    found = subprocess.run(
        [sys.executable, "-c", program], env=plain, cwd=root / "src", capture_output=True, text=True, timeout=120
    )
    assert (found.returncode, found.stdout) == (0, "5\n"), found.stderr
