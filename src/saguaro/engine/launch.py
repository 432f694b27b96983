"""Starts worker processes and ends them; nothing is left behind, whatever happens to either side.

A worker is `python -m saguaro.engine.worker` with one inherited socket (control) and, for the draft, one inherited
memory descriptor (mailbox); none of them has a name on the machine, so two engines cannot collide and nothing can be
left over. Tests: tests/processes/.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from saguaro.device import Device
from saguaro.engine.alarm import Alarm
from saguaro.engine.pipe import Message, Pipe
from saguaro.errors import ConfigError, RequestRefused, SaguaroError, WeightsError, WorkerDied

LOAD_SECONDS = 600.0
END_SECONDS = 3.0
HANGING_SECONDS = 0.05
"""How often one who may hang is looked at, while an answer is waited for."""
_ERRORS = {cls.__name__: cls for cls in (ConfigError, RequestRefused, WeightsError, WorkerDied)}


class Worker:
    """One worker process and the parent's end of its control pipe."""

    def __init__(self, role: str, device: Device, plan: tuple[Any, ...], descriptors: tuple[int, ...] = ()) -> None:
        self.role = role
        ours, theirs = socket.socketpair()
        try:
            arguments = [str(theirs.fileno()), role, ",".join(map(str, device.cores))]
            self.process = subprocess.Popen(
                [sys.executable, "-m", "saguaro.engine.worker", *arguments],
                pass_fds=(theirs.fileno(), *descriptors),
                stdin=subprocess.DEVNULL,
                env=_environment(),
            )
        finally:
            theirs.close()
        self.pipe = Pipe(ours)
        self.send("plan", plan)

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def send(self, name: str, value: Any = None) -> None:
        """Send a command; what arrives meanwhile is kept. Raises `WorkerDied` when nobody reads it."""
        try:
            self.pipe.send(name, value)
        except (EOFError, OSError) as error:
            raise self._death() from error

    def receive(self, seconds: float) -> Message | None:
        """The next message, or None after `seconds`. Raises what the worker failed with, or `WorkerDied`."""
        try:
            message = self.pipe.receive(seconds)
        except EOFError as error:
            raise self._death() from error
        return message if message is None else _checked(message)

    def arrived(self) -> list[Message]:
        """All messages that have come; raises as `receive`."""
        try:
            return [_checked(message) for message in self.pipe.arrived()]
        except EOFError as error:
            raise self._death() from error

    def expect(self, wanted: str, seconds: float = LOAD_SECONDS, *, hangs: Callable[[], bool] | None = None) -> Any:
        """Wait for a message of this name; others are dropped. A worker that `hangs` is given up at once."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not (hangs and hangs()):
            message = self.receive(min(left, HANGING_SECONDS if hangs else 1.0))
            if message is not None and message[0] == wanted:
                return message[1]
        raise WorkerDied(f"the {self.role} process did not answer within {seconds:.0f} s.")

    def _death(self) -> WorkerDied:
        return WorkerDied(f"the {self.role} process ended ({self.end_status()}).")

    def end_status(self) -> str:
        """How the process ended, in words."""
        try:
            code = self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "it still runs but closed its pipe"
        return f"signal {-code}" if code < 0 else f"exit status {code}"

    def kill(self) -> None:
        """End the process for good, also when it is stopped."""
        if self.alive:
            self.process.kill()
        self.process.wait()
        self.pipe.close()

    def close(self) -> None:
        """Let the process end in order; kill it when it takes too long."""
        self.pipe.close()
        try:
            self.process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _checked(message: Message) -> Message:
    """The message, unless it is a failure, which is raised."""
    if message[0] == "failed":
        kind, text = message[1]
        raise _ERRORS.get(kind, SaguaroError)(text)
    return message


def _environment() -> dict[str, str]:
    """The parent's environment, with the package findable where the parent found it."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": root + (os.pathsep + path if path else "")}


def wait_any(sources: Sequence[Pipe | Alarm], seconds: float) -> None:
    """Sleep until one of the pipes has something to read, or an alarm rings."""
    poller = select.poll()
    for each in sources:
        poller.register(each, select.POLLIN)
    poller.poll(1000 * seconds)
