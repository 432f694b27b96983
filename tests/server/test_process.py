"""The real command: the official client, a drain on SIGTERM, nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2 as httpx
import openai
import pytest
from tests.server.conftest import arguments

pytestmark = pytest.mark.processes
ENGINE = (
    "--target", "toy:llama?seed=1&vocab=300&layers=2", "--draft", "toy:llama?seed=1&vocab=300&layers=2&noise=0.1",
    "--mode", "ssd", "--lookahead", "3", "--budget", "6", "--dtype", "float32", "--max-model-len", "4096",
    "--target-device", "cpu:0", "--draft-device", "cpu:0", "--channel", "loopback",
)  # fmt: skip
MESSAGES = [{"role": "user", "content": "hi"}]


def start(*more: str) -> subprocess.Popen:
    """The command, told to stop by nobody but the test."""
    return subprocess.Popen(
        [sys.executable, "-m", "saguaro", "serve", *ENGINE, *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def address(process: subprocess.Popen) -> str:
    """Where it serves, once it does."""
    for line in process.stdout:
        if " at http" in line:
            return line.split(" at ")[1].split()[0]
    raise AssertionError(process.stderr.read())


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1])


def test_the_official_client_and_a_drain():
    process = start("--port", "0", "--served-model-name", "toy", "--drain-seconds", "30")
    try:
        url = address(process)
        client = openai.OpenAI(base_url=url + "/v1", api_key="unused", max_retries=0, timeout=30)
        check_client(client)
        pieces: list[str] = []
        stream = client.chat.completions.create(
            model="toy", messages=MESSAGES, stream=True, max_tokens=400, seed=1, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        process.send_signal(signal.SIGTERM)
        while accepts(port_of(url)):
            time.sleep(0.02)
        pieces = [chunk.choices[0].finish_reason for chunk in stream if chunk.choices]
        assert pieces[-1] == "length"  # it went on to its end
        client.close()
        assert process.wait(20) == 0
    finally:
        process.kill()
        out, err = process.communicate()
    assert "Traceback" not in err
    assert "Ctrl-C stops" in out or out == ""


def check_client(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["toy"]
    whole = client.chat.completions.create(
        model="toy", messages=MESSAGES, max_tokens=12, seed=2, logprobs=True, top_logprobs=2, n=2
    )
    assert len(whole.choices) == 2
    assert len(whole.choices[0].logprobs.content) == whole.usage.completion_tokens - len(
        whole.choices[1].logprobs.content
    )
    chunks = list(
        client.chat.completions.create(
            model="toy", messages=MESSAGES, max_tokens=12, seed=2, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens > 0
    with client.chat.completions.stream(model="toy", messages=MESSAGES, max_tokens=12, seed=2) as stream:
        for _ in stream:
            pass
        assert stream.current_completion_snapshot.choices[0].message.content == text
    said = client.completions.create(model="toy", prompt=["a", "b"], max_tokens=4, seed=1, logprobs=1)
    assert [choice.index for choice in said.choices] == [0, 1]
    said = client.responses.create(model="toy", input="hi", max_output_tokens=12, extra_body={"seed": 2})
    assert said.output_text == text
    with client.responses.stream(model="toy", input="hi", max_output_tokens=12, extra_body={"seed": 2}) as stream:
        kinds = [each.type for each in stream]
    assert kinds[0] == "response.created"
    assert kinds[-1] == f"response.{said.status}"
    with pytest.raises(openai.BadRequestError, match="did you mean 'temperature'") as caught:
        client.chat.completions.create(model="toy", messages=MESSAGES, extra_body={"temprature": 1})
    assert (caught.value.param, caught.value.code) == ("temprature", "unsupported_parameter")
    with pytest.raises(openai.NotFoundError, match="not served here"):
        client.chat.completions.create(model="gpt", messages=MESSAGES)
    stream = client.chat.completions.create(
        model="toy", messages=MESSAGES, stream=True, max_tokens=2000, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()  # leaves
    tool = {
        "type": "function",
        "function": {"name": "add", "parameters": {"type": "object", "additionalProperties": False}},
    }
    [called] = client.chat.completions.create(
        model="toy", messages=MESSAGES, tools=[tool], tool_choice="required", seed=1
    ).choices
    assert (called.message.tool_calls[0].function.name, called.finish_reason) == ("add", "tool_calls")


def accepts(port: int) -> bool:
    """Whether a new connection is taken."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_a_lost_draft_and_a_second_signal():
    """With workers of their own: the draft is killed, a stream goes on; it is cut when the second signal comes."""
    process = start("--port", "0", "--drain-seconds", "60", "--channel", "processes", "--no-restart-draft")
    try:
        url = address(process)
        client = openai.OpenAI(base_url=url + "/v1", api_key="x", max_retries=0, timeout=30)
        stream = client.completions.create(
            model=arguments("ar")["target"], prompt="a", stream=True, max_tokens=4000, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        assert health(url) == "alive"
        workers = workers_of(process)
        os.kill(workers["draft"], signal.SIGKILL)
        while health(url) == "alive":
            time.sleep(0.05)
        assert health(url) == "degraded"
        next(iter(stream))
        process.send_signal(signal.SIGTERM)
        threading.Timer(0.3, os.kill, (process.pid, signal.SIGTERM)).start()
        assert process.wait(20) == 143
        client.close()
        assert not [number for number in workers.values() if alive(number)]
    finally:
        process.kill()
        process.communicate()


def health(url: str) -> str:
    return httpx.get(url + "/health", timeout=20).json()["status"]


def workers_of(process: subprocess.Popen) -> dict[str, int]:
    """Process ids of the workers by role."""
    found = {}
    for listed in Path(f"/proc/{process.pid}/task").glob("*/children"):  # whichever thread started them
        for number in listed.read_text().split():
            words = Path(f"/proc/{number}/cmdline").read_text().split("\0")
            found["draft" if "draft" in words else "target"] = int(number)
    return found


def alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_taken_port_is_told_before_anything_is_loaded():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        process = start("--port", port)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert err == f"saguaro: port {port} of 127.0.0.1 is taken; stop what uses it or choose another --port.\n"
    assert out == ""
