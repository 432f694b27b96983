"""Faults by real signals while requests run over HTTP: each ends as docs/serving.md says, within its stated time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from saguaro import LLM, SamplingParams
from saguaro.testing.server_process import AR, PATIENCE, SSD, TARGET, ServerProcess, alive, ask, serving, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATH = "/v1/completions"
LONG: dict[str, Any] = {"model": "toy", "prompt": "a", "max_tokens": 4000, "seed": 5, "ignore_eos": True}
SHORT = {**LONG, "max_tokens": 40}


@pytest.fixture(scope="module")
def wanted() -> str:
    """What the target alone says to `LONG`, and to `SHORT` in its beginning."""
    with LLM(TARGET, mode="ar", channel="loopback", dtype="float32", max_model_len=4096) as llm:
        return llm.generate("a", SamplingParams(max_tokens=4000, seed=5, ignore_eos=True))[0].text


class Stream:
    """An answer to `LONG` that is read by the official client."""

    def __init__(self, server: ServerProcess) -> None:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0, timeout=PATIENCE)
        asked = {name: value for name, value in LONG.items() if name != "ignore_eos"}
        self._chunks = client.completions.create(**asked, extra_body={"ignore_eos": True}, stream=True)
        self.pieces = self._texts()
        self.first = next(self.pieces)

    def _texts(self) -> Iterator[str]:
        with self._chunks as chunks:
            for chunk in chunks:
                yield from (choice.text for choice in chunk.choices)


def test_a_killed_engine_fails_its_requests_at_once_and_a_new_one_serves(wanted):
    with serving(*AR) as server:
        stream = Stream(server)
        whole = []
        asking = threading.Thread(target=lambda: whole.append(server.post(PATH, LONG)))
        asking.start()
        wait_for(lambda: server.metric("num_requests_running") == 2)
        os.kill(server.workers()["target"], signal.SIGKILL)
        with pytest.raises(openai.APIError, match=r"target process ended \(signal 9\)"):
            list(stream.pieces)
        asking.join(PATIENCE)
        assert whole[0].status == 503
        assert whole[0].json()["error"]["code"] == "engine_restarting"
        assert 1 <= int(whole[0].headers["retry-after"]) <= 60
        found = server.get("/health")
        assert (found.status, found.json()["status"]) == (503, "dead")
        assert "a new one is starting" in found.json()["reason"]
        meanwhile = server.post(PATH, SHORT)
        assert (meanwhile.status, "retry-after" in meanwhile.headers) == (503, True)
        assert server.get("/v1/models").status == 200  # what needs no engine goes on

        wait_for(lambda: server.health() == "alive")
        answer = server.post(PATH, SHORT)
        assert answer.status == 200
        assert wanted.startswith(answer.json()["choices"][0]["text"])
        assert server.metric("engine_restarts_total") == 1
        assert server.stop() == 0


def test_a_stopped_engine_is_found_ended_and_replaced():
    """A stop that is shorter than the patience changes nothing; a longer one is found (`wait_for` bounds the time)."""
    with serving(*SSD, "--patience", "2") as server:
        stream = Stream(server)
        workers = server.workers()
        os.kill(workers["target"], signal.SIGSTOP)
        time.sleep(0.7)
        os.kill(workers["target"], signal.SIGCONT)
        assert next(stream.pieces)
        assert server.health() == "alive"
        os.kill(workers["target"], signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(openai.APIError, match="had said nothing for 2 s"):
            list(stream.pieces)
        assert time.monotonic() - began < PATIENCE / 2  # 4.5 s are stated; the machine may be busy
        wait_for(lambda: not any(map(alive, workers.values())))
        wait_for(lambda: server.health() == "alive")
        assert server.post(PATH, SHORT).status == 200
        assert server.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_engine_ends_a_server_that_is_told_so(number):
    with serving(*AR, "--on-engine-death", "exit", "--patience", "2") as server:
        stream = Stream(server)
        target = server.workers()["target"]
        os.kill(target, number)
        with pytest.raises(openai.APIError, match=r"signal 9|said nothing"):
            list(stream.pieces)
        assert server.process.wait(PATIENCE) == 1
        assert not alive(target)


def test_a_stopped_draft_is_degraded_and_one_comes_back(wanted):
    with serving(*SSD) as server:
        stream = Stream(server)
        draft = server.workers()["draft"]
        os.kill(draft, signal.SIGSTOP)
        wait_for(lambda: server.health() == "degraded", 10)
        found = [stream.first, next(stream.pieces)]  # it goes on without the draft
        os.kill(draft, signal.SIGCONT)
        wait_for(lambda: server.health() == "alive")
        found += stream.pieces
        assert "".join(found) == wanted


def test_a_killed_draft_is_replaced(wanted):
    with serving(*SSD) as server:
        stream = Stream(server)
        draft = server.workers()["draft"]
        os.kill(draft, signal.SIGKILL)
        wait_for(lambda: server.health() == "degraded", 10)
        found = [stream.first, *stream.pieces]
        assert "".join(found) == wanted
        wait_for(lambda: server.health() == "alive")
        assert server.workers()["draft"] != draft
        assert server.metric("draft_restarts_total") == 1
        assert server.stop() == 0


def test_a_full_disk_takes_the_logs_alone():
    """Standard output, standard error and the round log: none of them can be written."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with open("/dev/full", "w") as full:
        server = ServerProcess(*AR, "--port", str(port), "--round-log", "/dev/full", stdout=full, stderr=full)
        server._url = f"http://127.0.0.1:{port}"
        try:
            wait_for(lambda: server.process.poll() is not None or answers(server))
            for _ in range(3):
                assert server.post(PATH, {**SHORT, "model": None}).status == 200
            assert server.get("/nothing").status == 404
            assert server.stop() == 0
        finally:
            server.kill()


def answers(server: ServerProcess) -> bool:
    try:
        return server.health() == "alive"
    except urllib.error.URLError:
        return False


def test_a_stop_in_the_middle_of_a_restart_is_in_order():
    with serving(*AR) as server:
        os.kill(server.workers()["target"], signal.SIGKILL)
        wait_for(lambda: server.get("/health").status == 503)
        assert server.stop() == 0
        with pytest.raises(urllib.error.URLError):
            ask(server.url + "/health")


def test_a_log_that_nobody_reads_stops_nobody():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = ServerProcess(*AR, "--port", str(port), stderr=subprocess.PIPE)
    try:
        for number in range(1500):  # a line each, more than a pipe holds
            assert server.get(f"/nothing/{number}").status == 404
        assert server.post(PATH, {**SHORT, "model": None}).status == 200
        assert server.stop() == 0
    finally:
        server.kill()
