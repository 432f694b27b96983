"""Answers on their way: JSON in one piece; several streams of deltas as server-sent events, until the client leaves or
the answer ends.

A client that reads slowly holds up its own connection alone: what comes meanwhile is merged by `AsyncLLM`. Must not
know: what is in the events. Tests: tests/server/test_streaming.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
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
    """A stream of deltas that ends its request when it is closed."""

    def __aiter__(self) -> AsyncIterator[Delta]: ...

    async def aclose(self) -> None:
        """End the request."""


class Json(Response):
    """An answer in one piece. What clients sent comes back in it, half characters too: those become `?`."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return _plain(content)


def _plain(data: Any) -> bytes:
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(LINE_ENDS).encode("utf-8", errors="replace")


def event(data: Any, *, name: str | None = None) -> bytes:
    """One event with JSON in it, on one line; with a name, where clients tell events apart by it."""
    head = b"" if name is None else f"event: {name}\n".encode()
    return head + b"data: " + _plain(data) + b"\n\n"


async def as_one(sources: Sequence[Source], *, quiet: float) -> AsyncGenerator[tuple[int, Delta] | None, None]:
    """Deltas of all sources with their numbers, as they come; None when there was none for `quiet` seconds.

    Closing it ends all requests.

    Raises:
        SaguaroError: what the first source to fail fails with.
    """
    queue: asyncio.Queue[tuple[int, Delta] | Exception | None] = asyncio.Queue(1)

    async def pump(number: int, source: Source) -> None:
        try:
            async for delta in source:
                await queue.put((number, delta))
        except Exception as error:
            await queue.put(error)
        else:
            await queue.put(None)

    pumps = [asyncio.create_task(pump(number, source)) for number, source in enumerate(sources)]
    left = len(pumps)
    try:
        while left:
            try:
                async with asyncio.timeout(quiet):
                    item = await queue.get()
            except TimeoutError:
                yield None
                continue
            if isinstance(item, Exception):
                raise item
            if item is None:
                left -= 1
            else:
                yield item
    finally:
        for task in pumps:
            task.cancel()
        for source in sources:
            await source.aclose()
        await asyncio.gather(*pumps, return_exceptions=True)


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
