"""What `saguaro serve` writes, so that nobody who reads it, or does not, can stop the server.

A disk that is full, a reader that left, a pipe that nobody reads: they cost lines. Must not know: servers.
Tests: tests/cli/test_serve_output.py, tests/server/test_faults.py.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from typing import TextIO

PIECE = 1000
"""Characters written at a time: at most 4,000 bytes, which a pipe that can be written takes at once (PIPE_BUF)."""


def say(text: str) -> None:
    """A line on standard output."""
    try:
        print(text, flush=True)
    except OSError:
        _silence(sys.stdout)


def settle() -> None:
    """Write what is left, or drop it: it must not change the exit status."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _silence(stream)


def _silence(stream: TextIO) -> None:
    """Send what the stream still holds, and all that follows, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class Unwaiting:
    """A stream around another that drops what would have to wait.

    Raises:
        OSError, ValueError: the other has no descriptor.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._poll = select.poll()
        self._poll.register(stream.fileno(), select.POLLOUT)

    def write(self, text: str) -> None:
        """Write as much as is taken now."""
        for begin in range(0, len(text), PIECE):
            if not self._poll.poll(0):
                return
            self._stream.write(text[begin : begin + PIECE])
            self._stream.flush()

    def flush(self) -> None:
        """Nothing is held."""


def log_without_waiting() -> None:
    """Have the log drop lines that its reader does not take."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            try:
                handler.setStream(Unwaiting(sys.stderr))
            except (OSError, ValueError):
                continue  # it is no descriptor, so it cannot be full
