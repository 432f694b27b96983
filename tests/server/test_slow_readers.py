"""Clients that read slowly, or nothing: they hold up nobody, and who reads nothing is left."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.server.conftest import PATIENCE, Server, at_a_port, events, served

from saguaro import LLM, AsyncLLM, SamplingParams
from saguaro.server.reading import Patience
from saguaro.testing.server_process import ask, wait_for

SECONDS = 0.5
BUFFER = 4096  # bytes that each end's system keeps, about
LARGE = {"prompt": "abc", "max_tokens": 200, "seed": 3, "ignore_eos": True, "logprobs": 20}  # some 300 kB
SMALL = {"prompt": "12345", "max_tokens": 40, "seed": 4, "ignore_eos": True}


class Clock:
    """A loop whose time passes when it is told to."""

    def __init__(self) -> None:
        self.timers: list[list[Any]] = []

    def call_later(self, seconds: float, function: Callable[[], None]) -> Any:
        self.timers.append([seconds, function])
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def fire(self) -> None:
        [(seconds, function)] = self.timers
        assert seconds == SECONDS
        self.timers.clear()
        function()


def test_who_takes_something_has_time_anew_and_who_takes_nothing_is_given_up():
    left, given_up, clock = [100], [], Clock()
    patience = Patience(clock, SECONDS, unread=lambda: left[0], give_up=lambda: given_up.append(left[0]))
    patience.begin()
    for left[0] in (99, 98, 10):
        clock.fire()
        assert not given_up
    clock.fire()
    assert (given_up, clock.timers) == ([10], [])


def test_who_has_read_all_is_not_looked_at():
    clock = Clock()
    patience = Patience(clock, SECONDS, unread=lambda: 5, give_up=lambda: pytest.fail("it had ended"))
    patience.begin()
    patience.end()
    patience.end()
    assert not clock.timers


@pytest.fixture(scope="module")
def slow(llm) -> Server:
    return served(llm, read_seconds=SECONDS)


@pytest.fixture(scope="module")
def url(slow: Server) -> Iterator[str]:
    with at_a_port(slow, buffer=BUFFER) as found:
        yield found


@contextmanager
def asking(url: str, body: dict[str, Any]) -> Iterator[socket.socket]:
    """A client with a small buffer that has sent a request."""
    raw = json.dumps(body).encode()
    head = "POST /v1/completions HTTP/1.0\r\nhost: test\r\ncontent-type: application/json\r\n"
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        peer.settimeout(PATIENCE)
        peer.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        peer.sendall(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)
        yield peer


def everything(peer: socket.socket) -> bytes:
    found = b""
    while piece := peer.recv(1024):
        found += piece
    return found


@pytest.mark.parametrize("stream", [True, False])
def test_who_reads_nothing_is_left_and_others_do_not_wait(slow: Server, url: str, alone: LLM, stream: bool):
    with asking(url, {**LARGE, "stream": stream}) as peer:
        wait_for(lambda: slow.front.calls)
        answer = ask(url + "/v1/completions", json.dumps(SMALL).encode()).json()
        asked = SamplingParams(max_tokens=40, seed=4, ignore_eos=True)
        assert answer["choices"][0]["text"] == alone.generate("12345", asked)[0].text
        wait_for(lambda: not slow.front.calls)
        hung_up = select.poll()
        hung_up.register(peer, 0)
        assert wait_for(lambda: hung_up.poll(0)) == [(peer.fileno(), select.POLLERR | select.POLLHUP)]
        assert slow.front.gate.inside == 0


def test_what_comes_while_nobody_reads_is_merged(llm: AsyncLLM, alone: LLM):
    """The engine does not wait: it has ended before anything is read, and everything is there, in fewer events."""

    def engine() -> tuple[int, int]:
        found = llm._driver.call(lambda engine: engine.statistics()).result(PATIENCE)
        return found["totals"]["requests"], found["running"] + found["waiting"]

    before, _ = engine()
    with at_a_port(served(llm), buffer=BUFFER) as url, asking(url, {**LARGE, "stream": True}) as peer:
        wait_for(lambda: engine() == (before + 1, 0))
        head, _, body = everything(peer).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    seen = events(body.decode())
    assert seen[-1] == "[DONE]"
    choices = [choice for chunk in seen[:-1] for choice in chunk["choices"]]
    assert len(choices) < 100
    assert sum(len(choice["logprobs"]["tokens"]) for choice in choices) == 200
    text = "".join(choice["text"] for choice in choices)
    asked = SamplingParams(max_tokens=200, seed=3, ignore_eos=True)
    assert text == alone.generate("abc", asked)[0].text
