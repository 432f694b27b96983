"""Clients that do not read: whether what waits for one gets less.

A client is slow when it takes a byte now and then, and may be so for ever: what comes meanwhile is merged for it. One
that takes nothing for long keeps a socket, buffers and perhaps a row of the engine, and is left. Must not know: HTTP.
Tests: tests/server/test_slow_readers.py.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable

INT = struct.Struct("i")
AT_ONCE = struct.pack("ii", 1, 0)


class Patience:
    """Looks from time to time whether there is less to read than before, while there is something.

    Args:
        loop: of the connection.
        seconds: between two looks; a client that read nothing meanwhile is given up.
        unread: bytes that were written and that the client has not taken. They only get fewer while this looks.
        give_up: leaves the client.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        *,
        unread: Callable[[], int],
        give_up: Callable[[], None],
    ) -> None:
        self._loop, self._seconds = loop, seconds
        self._unread, self._give_up = unread, give_up
        self._timer: asyncio.TimerHandle | None = None
        self._before = 0

    def begin(self) -> None:
        """Something is left to read."""
        self.end()
        self._before = self._unread()
        self._timer = self._loop.call_later(self._seconds, self._look)

    def end(self) -> None:
        """All was read, or nobody is there; ending twice is fine."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if self._unread() < self._before:
            self.begin()
        else:
            self._timer = None
            self._give_up()


def unread(transport: asyncio.Transport) -> int:
    """Bytes that were written and that the other end has not taken: those in this process and those in the system."""
    found = bytearray(INT.size)
    fcntl.ioctl(_socket(transport).fileno(), termios.TIOCOUTQ, found)
    return transport.get_write_buffer_size() + int(INT.unpack(found)[0])


def leave(transport: asyncio.Transport) -> None:
    """End a connection now: nothing that was written waits on in the system."""
    _socket(transport).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    transport.abort()


def _socket(transport: asyncio.Transport) -> socket.socket:
    found: socket.socket = transport.get_extra_info("socket")
    return found
