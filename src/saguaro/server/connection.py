"""A connection over HTTP/1.1 that bounds how long the head of a request may take, and how long nothing may be read of
an answer.

uvicorn closes a connection that is idle between two requests, but waits for ever for a first request, for the rest of a
head, and for a client that does not read. The doorway bounds bodies. Must not know: paths, applications.
Tests: tests/server/test_slow_senders.py, tests/server/test_slow_readers.py.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from saguaro.server.errors import slow_request
from saguaro.server.options import ServerOptions
from saguaro.server.reading import Patience, leave, unread

log = logging.getLogger(__name__)


class Connection(H11Protocol):
    """One connection.

    Args:
        head_seconds: longest time from its beginning, or from the first byte of a later request, to the end of a head.
        read_seconds: longest time in which nothing is read of what was written.
        options: what uvicorn gives.
    """

    def __init__(self, *, head_seconds: float, read_seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._head_seconds, self._read_seconds = head_seconds, read_seconds
        self._patience: Patience | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._began = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Pause whoever writes as soon as the system takes no more: what waits in this process is one event at most, and
        # that something waits is told.
        transport.set_write_buffer_limits(high=0)
        self._patience = Patience(
            self.loop, self._read_seconds, unread=partial(unread, transport), give_up=self._leave_reader
        )
        self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        assert self._patience is not None
        self._patience.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        assert self._patience is not None
        self._patience.end()

    def _leave_reader(self) -> None:
        log.info("a client that has read nothing for %g s is left", self._read_seconds)
        leave(self.transport)

    def data_received(self, data: bytes) -> None:
        self._began = True
        super().data_received(data)
        if self._waits():
            self._await_head()
        else:
            self._head_came()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        if self._patience is not None:
            self._patience.end()
        super().connection_lost(exc)

    def _waits(self) -> bool:
        """Whether a head is under way, or the rest of a body that was answered already."""
        theirs = self.conn.their_state
        return theirs is h11.IDLE or (theirs is h11.SEND_BODY and self.conn.our_state is h11.DONE)

    def _await_head(self) -> None:
        if self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self._head_seconds, self._give_up)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        """Close; say why, where a part of a head had come."""
        self._head_timer = None
        if self._began and self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.write(_plain_answer(self._head_seconds))
        self.transport.close()


def connections(options: ServerOptions) -> Any:
    """What makes the connections of a server, for uvicorn."""
    return partial(Connection, head_seconds=options.send_seconds, read_seconds=options.read_seconds)


def _plain_answer(seconds: float) -> bytes:
    error = slow_request(seconds)
    body = error.encoded()
    lines = ["HTTP/1.1 408 Request Timeout", "content-type: application/json", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in error.headers().items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
