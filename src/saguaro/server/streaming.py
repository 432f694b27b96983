"""Answers on their way: JSON in one piece; several streams of deltas as server-sent events, until the client leaves or
the answer ends.

A client that reads slowly holds up its own connection alone: what comes meanwhile is merged by `AsyncLLM`. What comes
at once for one client leaves at once, in one call of the system: that call is most of what a token costs. Must not
know: what is in the events. Tests: tests/server/test_streaming.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any, Protocol

from starlette.responses import Response

from saguaro.errors import SaguaroError
from saguaro.request import Delta
from saguaro.server.errors import ApiError, of_saguaro
from saguaro.server.limits import Call, ClientGone, Receive

log = logging.getLogger(__name__)

Send = Callable[[Any], Awaitable[None]]
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": waiting\n\n"
LAST_WORDS = 1.0
"""Seconds to tell a client why its stream ends early."""
LINE_ENDS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
"""Characters that some clients take for the end of a line."""


class Source(Protocol):
    """A stream of deltas that ends its request when it is closed (`async_llm.Stream`)."""

    @property
    def ended(self) -> bool:
        """Whether no further piece comes."""

    def begin(self, news: asyncio.Event) -> None:
        """Start; the event is set when there is something to take, and at the end."""

    def take(self) -> Delta | None:
        """What has come; raises what the request failed with, after that."""

    async def aclose(self) -> None:
        """End the request."""


class Json(Response):
    """An answer in one piece. What clients sent comes back in it, half characters too: those become `?`."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return plain(content)


_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def plain(data: Any) -> bytes:
    """JSON on one line, for every client's idea of a line."""
    text = _encoded(data)
    return text.encode() if text.isascii() else text.translate(LINE_ENDS).encode("utf-8", errors="replace")


def event(data: Any, *, name: str | None = None) -> bytes:
    """One event with JSON in it, on one line; with a name, where clients tell events apart by it."""
    head = b"" if name is None else f"event: {name}\n".encode()
    return head + b"data: " + plain(data) + b"\n\n"


def around(data: Any, name: str) -> tuple[bytes, bytes]:
    """An event in two parts, between which the one member of its list `name`, empty here, is to stand: what all events
    of a stream have in common is written once.
    """
    mark = f'"{name}":['.encode()  # no text within JSON holds it: a quote in there has a backslash
    before, _, after = event(data).partition(mark)
    return before + mark, after


class _Silence:
    """Sets an event when nothing was heard for so many seconds. Its timer is set once for many pieces."""

    def __init__(self, seconds: float, news: asyncio.Event) -> None:
        self._seconds, self._news = seconds, news
        self._loop = asyncio.get_running_loop()
        self.told = False
        self.heard()
        self._timer = self._loop.call_later(seconds, self._look)

    def heard(self) -> None:
        """It begins anew."""
        self._last, self.told = self._loop.time(), False

    def _look(self) -> None:
        left = self._last + self._seconds - self._loop.time()
        if left <= 0:
            self.told, left = True, self._seconds
            self._news.set()
        self._timer = self._loop.call_later(left, self._look)

    def end(self) -> None:
        self._timer.cancel()


async def as_one(sources: Sequence[Source], *, quiet: float) -> AsyncGenerator[list[tuple[int, Delta]], None]:
    """Deltas of all sources with their numbers, those that came at once together; an empty list when there was none for
    `quiet` seconds.

    Closing it ends all requests.

    Raises:
        SaguaroError: what the first source to fail fails with.
    """
    news = asyncio.Event()
    silence = _Silence(quiet, news)
    left = dict(enumerate(sources))
    try:
        for source in sources:
            source.begin(news)
        while left:
            await news.wait()
            news.clear()
            found, error = _taken(left)
            if found or silence.told:
                silence.heard()
                yield found
            if error is not None:
                raise error
    finally:
        silence.end()
        for source in sources:
            await source.aclose()


def _taken(left: dict[int, Source]) -> tuple[list[tuple[int, Delta]], Exception | None]:
    """What has come of sources, and what one failed with; sources that have ended are taken out."""
    found: list[tuple[int, Delta]] = []
    try:
        for number, source in list(left.items()):
            while (delta := source.take()) is not None:
                found.append((number, delta))
            if source.ended:
                del left[number]
    except Exception as error:
        return found, error
    return found, None


class EventStream(Response):
    """A response of events, made by a generator of frames. It closes its call, whatever happens.

    An error after the first event cannot change the status any more: it becomes an event with an `error` object, which
    the official client raises, and no `[DONE]` follows.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes, None], call: Call) -> None:
        self.status_code = 200
        self.background = None
        self._frames, self._call = frames, call
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        try:
            await self._call.run(self._send_all(send), receive)
        except ClientGone:
            log.debug("a client left its stream")
        finally:
            await self._frames.aclose()
            self._call.close()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        error: ApiError | None = None
        try:
            async with aclosing(self._frames):
                async for frame in self._frames:
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
        except asyncio.CancelledError:
            if self._call.error is None:
                raise
            error = self._call.error
        except ApiError as failed:
            error = failed
        except SaguaroError as failed:
            error = of_saguaro(failed)
        except OSError:
            return  # some servers say so when the client has gone
        except Exception:
            log.exception("a stream failed")
            error = ApiError(500, "internal error; the log of the server has more.")
        with suppress(TimeoutError):
            await self._end(send, error)

    @staticmethod
    async def _end(send: Send, error: ApiError | None) -> None:
        async with asyncio.timeout(LAST_WORDS if error else None):
            if error is not None:
                await send({"type": "http.response.body", "body": event(error.body()), "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
