"""The real command: a drain on SIGTERM, a second signal, a lost draft, a taken port, nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import openai
import pytest

from saguaro.testing.server_process import SSD, ServerProcess, alive, serving, wait_for

pytestmark = pytest.mark.processes
ONE_CORE = (*SSD, "--target-device", "cpu:0", "--draft-device", "cpu:0", "--channel", "loopback")


def stream_of(server: ServerProcess, tokens: int):
    """The official client, and a stream that it reads; its first piece has come."""
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0, timeout=30)
    stream = client.completions.create(
        model="toy", prompt="a", stream=True, max_tokens=tokens, seed=1, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    return client, stream


def test_a_drain():
    with serving(*ONE_CORE, "--drain-seconds", "30") as server:
        client, stream = stream_of(server, 400)
        server.process.send_signal(signal.SIGTERM)
        while accepts(server.port):
            time.sleep(0.02)
        reasons = [chunk.choices[0].finish_reason for chunk in stream if chunk.choices]
        assert reasons[-1] == "length"  # it went on to its end
        client.close()
        assert server.process.wait(20) == 0
        out, err = server.kill()
    assert "Traceback" not in err
    assert "Ctrl-C stops" in out or out == ""


def accepts(port: int) -> bool:
    """Whether a new connection is taken."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_a_lost_draft_and_a_second_signal():
    """With workers of their own: the draft is killed, a stream goes on; it is cut when the second signal comes."""
    with serving(*ONE_CORE, "--drain-seconds", "60", "--channel", "processes", "--no-restart-draft") as server:
        client, stream = stream_of(server, 4000)
        assert server.health() == "alive"
        workers = server.workers()
        os.kill(workers["draft"], signal.SIGKILL)
        wait_for(lambda: server.health() != "alive")
        assert server.health() == "degraded"
        next(iter(stream))
        server.process.send_signal(signal.SIGTERM)
        threading.Timer(0.3, os.kill, (server.process.pid, signal.SIGTERM)).start()
        assert server.process.wait(20) == 143
        client.close()
        assert not [number for number in workers.values() if alive(number)]


def test_a_taken_port_is_told_before_anything_is_loaded():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        server = ServerProcess(*ONE_CORE, "--port", port)
        server.process.wait(30)
        out, err = server.kill()
    assert server.process.returncode == 2
    assert err == f"saguaro: port {port} of 127.0.0.1 is taken; stop what uses it or choose another --port.\n"
    assert out == ""
