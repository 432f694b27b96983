"""Clients that send slowly: what does not come in time ends its connection; others wait for nobody."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest
from tests.server.conftest import at_a_port, served

SECONDS = 0.12
BODY = json.dumps({"prompt": "a", "max_tokens": 2}).encode()
HEAD = (
    b"POST /v1/completions HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
    b"content-length: " + str(len(BODY)).encode() + b"\r\n\r\n"
)
HEALTH = b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n"


@pytest.fixture(scope="module")
def port(llm) -> Iterator[int]:
    with at_a_port(served(llm, send_seconds=SECONDS)) as url:
        yield int(url.rsplit(":", 1)[1])


@pytest.fixture
def peer(port) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as found:
        yield found


def rest(peer: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    found = b""
    while piece := peer.recv(65536):
        found += piece
    return found


def answer(peer: socket.socket) -> bytes:
    """One answer with a body of known length; the connection stays open."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += peer.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += peer.recv(65536)
    return head


def check_408(said: bytes) -> None:
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head.lower()
    assert json.loads(body)["error"]["code"] == "slow_request"


def test_a_connection_that_says_nothing_is_closed(peer):
    assert rest(peer) == b""


@pytest.mark.parametrize("sent", [HEAD[:40], HEAD[:-2], HEAD, HEAD + BODY[:-1]])
def test_a_request_that_does_not_come_in_time_is_408(peer, sent):
    peer.sendall(sent)
    check_408(rest(peer))


def test_pieces_do_not_buy_time(peer):
    """Byte after byte, each soon after the last."""
    peer.sendall(HEAD)
    peer.settimeout(SECONDS / 10)
    for byte in BODY[:-1] * 100:
        try:
            said = peer.recv(65536, socket.MSG_PEEK)
        except TimeoutError:
            peer.sendall(bytes([byte]))
        else:
            break
    peer.settimeout(30)
    assert said.startswith(b"HTTP/1.1 408 ")


def test_a_later_request_has_its_time_anew(peer):
    peer.sendall(HEALTH)
    assert answer(peer).startswith(b"HTTP/1.1 200")
    time.sleep(2 * SECONDS)  # idle between two requests
    peer.sendall(HEAD[:30])
    check_408(rest(peer))


def test_the_rest_of_a_body_that_was_answered_already_is_not_waited_for(port):
    """The path does not exist, which is said before the body has come."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
        peer.sendall(HEAD.replace(b"/v1/completions", b"/nothing"))
        said = answer(peer)
        assert said.startswith(b"HTTP/1.1 404")
        peer.sendall(BODY[:5])
        assert rest(peer) == b""


def test_a_request_in_pieces_is_answered(peer):
    for piece in (HEAD[:20], HEAD[20:], BODY[:5], BODY[5:]):
        peer.sendall(piece)
        time.sleep(0.01)
    assert answer(peer).startswith(b"HTTP/1.1 200")
