"""The parent's end of a worker's control pipe."""

from __future__ import annotations

import socket
import threading
from multiprocessing.connection import Connection

import pytest

from saguaro.engine.launch import Worker
from saguaro.engine.pipe import Pipe
from saguaro.errors import WorkerDied

BIG = "x" * 300_000


class Peer(Worker):
    """The parent's end over a socket pair, with a thread of the test at the other end."""

    def __init__(self, ours: socket.socket) -> None:
        self.role = "test"
        self.pipe = Pipe(ours)

    def end_status(self) -> str:
        return "closed"


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with Connection(theirs.detach()) as other:
        peer = Peer(ours)
        yield peer, other
        peer.pipe.close()


def test_both_sides_have_much_to_say(pair: tuple[Peer, Connection]) -> None:
    """The worker reads nothing until it has said all, more than the pipe holds; so does the parent: nobody waits for
    ever.
    """
    peer, other = pair
    heard: list[object] = []

    def work() -> None:
        for number in range(5):
            other.send(("event", (number, BIG)))
        heard.extend(other.recv() for _ in range(5))

    def parent() -> None:
        for number in range(5):
            peer.send("submit", (number, BIG))

    threads = [threading.Thread(target=each, daemon=True) for each in (work, parent)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert heard == [("submit", (number, BIG)) for number in range(5)]
    assert [peer.receive(1.0) for _ in range(5)] == [("event", (number, BIG)) for number in range(5)]
    assert peer.receive(0) is None


def test_a_worker_that_is_gone(pair: tuple[Peer, Connection]) -> None:
    peer, other = pair
    other.close()
    with pytest.raises(WorkerDied, match="the test process ended"):
        peer.send("submit", BIG)
    with pytest.raises(WorkerDied, match="ended"):
        peer.receive(1.0)
