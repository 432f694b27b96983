"""Event streams as they come: what a client does meanwhile is to note the time, and it reads afterwards.

So clients that measure a server take little of a machine that they share with it. Requests are HTTP/1.0, one a
connection. Must not know: how a server works. Tests: tests/server/test_load.py.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

PATH = "/v1/completions"


def request(host: str, body: bytes) -> bytes:
    """A request as it is sent."""
    head = f"POST {PATH} HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


@dataclass
class Read:
    """What a stream said.

    Attributes:
        times: when each event came.
        delays: seconds from the end of a round in the target to its text's coming, where rounds were asked for.
    """

    status: int
    text: str = ""
    finish: str = ""
    tokens: int = 0
    times: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)


@dataclass
class Recording:
    """The pieces of an answer, each with the time (of `time.monotonic`) when it came."""

    pieces: list[tuple[float, bytes]] = field(default_factory=list)

    def read(self) -> Read:
        """What it says.

        Raises:
            ValueError: it is no whole stream.
        """
        head, _, body = b"".join(data for _, data in self.pieces).partition(b"\r\n\r\n")
        found = Read(int(head.split(maxsplit=2)[1]))
        blocks = body.split(b"\n\n")
        if found.status != 200 or blocks[-2:] != [b"data: [DONE]", b""]:
            raise ValueError(f"a stream of status {found.status} ended with {body[-200:]!r}")
        ends = iter(self._ends())
        end, came = next(ends)
        at = len(head) + 4
        for block in blocks[:-1]:
            at += len(block) + 2
            while end < at:
                end, came = next(ends)
            if block.startswith(b"data: {"):
                found.times.append(came)
                self._add(found, json.loads(block[6:]), came)
        return found

    def _ends(self) -> list[tuple[int, float]]:
        """Where each piece ends, and when it came."""
        found, at = [], 0
        for came, data in self.pieces:
            at += len(data)
            found.append((at, came))
        return found

    @staticmethod
    def _add(found: Read, chunk: dict[str, Any], came: float) -> None:
        for choice in chunk["choices"]:
            found.text += choice["text"]
            found.finish = choice["finish_reason"] or found.finish
            found.delays += [came - each["time"] for each in choice.get("saguaro", {}).get("rounds", [])[-1:]]
        found.tokens = (chunk.get("usage") or {}).get("completion_tokens", found.tokens)


class _Recorder(asyncio.Protocol):
    """Sends a request and keeps what comes."""

    def __init__(self, sent: bytes, recording: Recording) -> None:
        self._sent, self._pieces = sent, recording.pieces
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.write(self._sent)

    def data_received(self, data: bytes) -> None:
        self._pieces.append((time.monotonic(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def record(host: str, port: int, body: bytes) -> Recording:
    """The answer to a request, until the server closes the connection."""
    found = Recording()
    loop = asyncio.get_running_loop()
    transport, recorder = await loop.create_connection(lambda: _Recorder(request(host, body), found), host, port)
    try:
        await recorder.ended
    finally:
        transport.abort()
    return found
