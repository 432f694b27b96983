"""Many clients of a server at once: they read streams, wait for whole answers, leave, read slowly or not at all, or
send nonsense. Every answer is compared with what the target alone says.

    cases = [Case(body, text), ...]
    found = asyncio.run(run_load(host, port, cases, clients=64, seconds=180))
    assert not found.wrong

Requests are HTTP/1.0 over plain sockets, one a connection, so that a test decides what is sent and when it is read.
Must not know: how a server works, or that it is ours beyond its paths. Tests: tests/server/test_load.py.
"""

from __future__ import annotations

import asyncio
import json
import random
import select
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from saguaro.testing.http_record import Recording, record, request

SMALL_BUFFER, LINE_LIMIT = 4096, 1 << 20
SLOW_PIECE, SLOW_PAUSE = 512, 0.05
"""A slow reader takes so many bytes at a time, and then waits so many seconds."""
LARGE = {"max_tokens": 600, "logprobs": 20}
"""What makes an answer larger than what the systems at both ends keep for a client that does not read it."""
STUCK_LOOK = 0.05
"""How often a client that reads nothing looks whether it was left."""
PATIENCE = 120.0
KINDS = {"stream": 0.4, "whole": 0.15, "leave": 0.2, "slow": 0.15, "bad": 0.1}
BAD: tuple[tuple[bytes, int], ...] = (
    (b"{", 400),
    (b'{"prompt": 3}', 400),
    (b'{"prompt": "a", "temprature": 1}', 400),
    (b'{"prompt": "a", "temperature": -1}', 400),
    (b'{"prompt": ""}', 400),
    (b'{"prompt": "a", "model": "another"}', 404),
    (b"\xff\xfe", 400),
)
"""Bodies that are refused, and how."""


@dataclass(frozen=True)
class Case:
    """A request and the text that answers it."""

    body: dict[str, Any]
    text: str


@dataclass
class Found:
    """What clients saw.

    Attributes:
        ended: answers by kind of client.
        tokens: of answers that were read to their end.
        wrong: one sentence for each thing that must not happen.
        delays: seconds from the end of a round in the target to the arrival of its text, where rounds were asked for.
        kept: streams that were not read yet; None reads each as it ends.
        left: seconds after which those were left that read nothing.
    """

    ended: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    wrong: list[str] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    kept: list[tuple[Case, Recording]] | None = None
    left: list[float] = field(default_factory=list)

    def streamed(self, case: Case, recording: Recording) -> list[float]:
        """A stream to its end; when its events came."""
        seen = recording.read()
        self.check("stream", case, seen.status, seen.text, seen.finish)
        self.tokens += seen.tokens
        self.delays += seen.delays
        return seen.times

    def check(self, kind: str, case: Case, status: int, text: str, finish: str) -> None:
        """An answer that was read to its end."""
        if (status, text, finish) != (200, case.text, "length"):
            self.wrong.append(f"{kind}: {status}, {finish}, {text!r} instead of {case.text!r}")

    def read_kept(self) -> None:
        """Read what was kept."""
        for case, recording in self.kept or ():
            try:
                self.streamed(case, recording)
            except (ValueError, KeyError, IndexError) as error:
                self.wrong.append(f"stream: {type(error).__name__}: {error}")
        self.kept = None


class Pace:
    """Lets requests begin so that all together ask for so many tokens a second; None is as fast as they can."""

    def __init__(self, rate: float | None) -> None:
        self._rate, self._next = rate, time.monotonic()

    async def take(self, tokens: int) -> None:
        """Wait for a request's turn."""
        if self._rate is None:
            return
        now = time.monotonic()
        begin = max(now, self._next)
        self._next = begin + tokens / self._rate
        await asyncio.sleep(begin - now)


@dataclass
class Client:
    """One client at a time: where it asks, what it has found; `times`: when events of streams came, if wanted."""

    host: str
    port: int
    found: Found
    random: random.Random
    times: list[float] | None = None

    async def one(self, kind: str, case: Case) -> None:
        """One request of a kind."""
        act: Callable[[Case], Awaitable[None]] = getattr(self, kind)
        try:
            async with asyncio.timeout(PATIENCE):
                await act(case)
        except (TimeoutError, OSError, ValueError, KeyError, IndexError) as error:
            self.found.wrong.append(f"{kind}: {type(error).__name__}: {error}")
        self.found.ended[kind] += 1

    async def stream(self, case: Case) -> None:
        """Read a stream to its end."""
        recording = await record(self.host, self.port, _body(case, stream=True))
        if self.found.kept is not None:
            self.found.kept.append((case, recording))
        else:
            times = self.found.streamed(case, recording)
            if self.times is not None:
                self.times += times

    async def whole(self, case: Case) -> None:
        """Wait for an answer in one piece."""
        async with self._asked(case, stream=False) as (status, reader):
            answer = json.loads(await reader.read())
        [choice] = answer["choices"]
        self.found.check("whole", case, status, choice["text"], choice["finish_reason"])
        self.found.tokens += answer["usage"]["completion_tokens"]

    async def leave(self, case: Case) -> None:
        """Leave a stream after some of its events."""
        text = ""
        async with self._asked(case, stream=True) as (status, reader):
            for _ in range(self.random.randrange(6)):
                line = await reader.readline()
                if line.startswith(b"data: {"):
                    text += "".join(choice["text"] for choice in json.loads(line[6:])["choices"])
        if status != 200 or not case.text.startswith(text):
            self.found.wrong.append(f"leave: {status}, {text!r} does not begin {case.text!r}")

    async def slow(self, case: Case) -> None:
        """Read a stream to its end, a little at a time, through a small buffer."""
        data = b""
        async with self._asked(case, stream=True, small=True) as (status, reader):
            while piece := await reader.read(SLOW_PIECE):
                data += piece
                await asyncio.sleep(SLOW_PAUSE)
        seen = Recording([(0.0, b"HTTP/1.1 %d OK\r\n\r\n" % status + data)]).read()
        self.found.check("slow", case, status, seen.text, seen.finish)
        self.found.tokens += seen.tokens

    async def large(self, case: Case) -> None:
        """Read a large answer to its end, whatever it says."""
        seen = (await record(self.host, self.port, _body(Case({**case.body, **LARGE}, ""), stream=True))).read()
        if (seen.finish, seen.tokens) != ("length", LARGE["max_tokens"]):
            self.found.wrong.append(f"large: {seen.status}, {seen.finish}, {seen.tokens} tokens")
        self.found.tokens += seen.tokens

    async def stuck(self, case: Case) -> None:
        """Ask for a large answer, and read nothing until the server leaves."""
        large = Case({**case.body, **LARGE}, "")
        peer = await self._connected(small=True)
        with peer:
            begin, left = time.monotonic(), select.poll()
            left.register(peer, 0)
            await asyncio.get_running_loop().sock_sendall(peer, request(self.host, _body(large, stream=True)))
            while not left.poll(0):
                await asyncio.sleep(STUCK_LOOK)
            self.found.left.append(time.monotonic() - begin)

    async def bad(self, case: Case) -> None:
        """Send a body that is refused."""
        body, wanted = self.random.choice(BAD)
        async with self._sent(body) as (status, reader):
            answer = json.loads(await reader.read())
        if status != wanted or not answer["error"]["message"]:
            self.found.wrong.append(f"bad: {body!r} gave {status}, {answer}")

    # -- reading and writing ----------------------------------------------------------------------------------------

    def _asked(self, case: Case, *, stream: bool, small: bool = False) -> Any:
        return self._sent(_body(case, stream=stream), small=small)

    async def _connected(self, *, small: bool) -> socket.socket:
        peer = socket.socket()
        if small:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        peer.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(peer, (self.host, self.port))
        except BaseException:
            peer.close()
            raise
        return peer

    @asynccontextmanager
    async def _sent(self, body: bytes, *, small: bool = False) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
        """The status of an answer, and what follows its head."""
        peer = await self._connected(small=small)
        reader, writer = await asyncio.open_connection(sock=peer, limit=SMALL_BUFFER if small else LINE_LIMIT)
        try:
            writer.write(request(self.host, body))
            status = int((await reader.readline()).split()[1])
            while (await reader.readline()).strip():
                pass
            yield status, reader
        finally:
            writer.transport.abort()


def _body(case: Case, *, stream: bool) -> bytes:
    more: dict[str, Any] = {"stream": stream}
    if stream:
        more["stream_options"] = {"include_usage": True}
    return json.dumps({**case.body, **more}).encode()


async def run_load(
    host: str,
    port: int,
    cases: Sequence[Case],
    *,
    clients: int,
    seconds: float,
    kinds: dict[str, float] | None = None,
    rate: float | None = None,
    seed: int = 0,
    keep: bool = False,
) -> Found:
    """Let so many clients ask for so long; requests that were begun are ended.

    Args:
        host: name or address of the server.
        port: of the server.
        cases: requests to choose from; each must end by its `max_tokens`.
        clients: that ask at the same time.
        seconds: after which no request begins.
        kinds: how often each kind of client comes; default `KINDS`.
        rate: tokens a second that all requests together ask for; None: each client asks again at once.
        seed: of the choices.
        keep: read streams of the kind `stream` only when `Found.read_kept` is called, so that clients cost little.
    """
    shares = kinds or KINDS
    found, pace, end = Found(kept=[] if keep else None), Pace(rate), time.monotonic() + seconds

    async def one(number: int) -> None:
        client = Client(host, port, found, random.Random(1000 * seed + number))
        while time.monotonic() < end:
            [kind] = client.random.choices([*shares], [*shares.values()])
            case = client.random.choice(cases)
            await pace.take(case.body["max_tokens"])
            await client.one(kind, case)

    await asyncio.gather(*(one(number) for number in range(clients)))
    return found
