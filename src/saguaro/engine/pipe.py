"""The parent's end of a worker's control pipe: pairs (name, value), read in gulps.

The worker's end is a `multiprocessing.connection.Connection`, whose framing is kept. Its way of reading is not: it asks
the system four times a message, where one call may bring all that a round has to say. One thread at a time. Must not
know: processes, what is said. Tests: tests/processes/test_launch.py.
"""

from __future__ import annotations

import pickle
import select
import socket
import struct
import time
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Any

Message = tuple[str, Any]
HEAD = struct.Struct("!i")
GULP = 1 << 16


class Pipe:
    """One end of a socket pair, which it owns."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._poller = select.poll()
        self._poller.register(ours, select.POLLIN)
        self._buffer = bytearray()  # of a message that has not come in full
        self._inbox: deque[Message] = deque()

    def fileno(self) -> int:
        """The descriptor that becomes readable."""
        return self._socket.fileno()

    def send(self, name: str, value: Any) -> None:
        """Send a message; what arrives meanwhile is kept.

        A worker that has much to say does not read until it has said it. So while the pipe is full, this side reads:
        otherwise both could wait for each other for ever.

        Raises:
            EOFError, OSError: nobody reads it.
        """
        body = bytes(ForkingPickler.dumps((name, value)))
        frame = memoryview(HEAD.pack(len(body)) + body)
        while frame:
            try:
                frame = frame[self._socket.send(frame, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                readable, _, _ = select.select([self._socket], [self._socket], [])
                if readable:
                    self._take()

    def receive(self, seconds: float) -> Message | None:
        """The next message, or None after so many seconds.

        Raises:
            EOFError: the other end is closed, and all that it said was read.
        """
        deadline = time.monotonic() + seconds
        if not self._inbox:
            self._take()
        while not self._inbox and (left := deadline - time.monotonic()) > 0:
            self._poller.poll(1000 * left)
            self._take()
        return self._inbox.popleft() if self._inbox else None

    def arrived(self) -> list[Message]:
        """All messages that have come; raises as `receive`."""
        self._take()
        found = list(self._inbox)
        self._inbox.clear()
        return found

    def _take(self) -> None:
        """Read what there is, without waiting."""
        try:
            piece = self._socket.recv(GULP, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece and not self._inbox:
            raise EOFError
        self._buffer += piece
        begin = HEAD.size
        while begin <= len(self._buffer):
            end = begin + HEAD.unpack_from(self._buffer)[0]
            if end > len(self._buffer):
                break
            self._inbox.append(pickle.loads(self._buffer[begin:end]))
            del self._buffer[:end]

    def close(self) -> None:
        """Hang up; closing twice is fine."""
        self._socket.close()
