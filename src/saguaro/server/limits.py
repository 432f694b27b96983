"""Who may ask and how much: keys, the bounded queue, and requests that can be ended from outside.

Must not know: FastAPI, models. Tests: tests/server/test_limits.py.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from saguaro.server.errors import ApiError

Receive = Callable[[], Awaitable[Any]]
Value = TypeVar("Value")
LONGEST_RETRY = 60


class ClientGone(Exception):
    """The client left before it was answered."""


def key_fits(header: str | None, keys: Iterable[str]) -> bool:
    """Whether an Authorization header carries one of the keys; takes the same time whatever it carries."""
    kind, _, given = (header or "").partition(" ")
    sent = given.strip().encode("utf-8", errors="replace")
    found = False
    for key in keys:
        found |= hmac.compare_digest(sent, key.encode())
    return found and kind.lower() == "bearer"


class Gate:
    """Counts choices under way and refuses those beyond what may run and wait.

    Args:
        running: choices that run at once.
        waiting: choices that may wait for them.
        clock: seconds, for the estimate of when there is room again.
    """

    def __init__(self, running: int, waiting: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = running + waiting
        self._running = running
        self._clock = clock
        self._mean = 1.0
        self.inside = 0

    def enter(self, choices: int) -> None:
        """Take places.

        Raises:
            ApiError: 400 when they can never be had, 429 when they cannot be had now.
        """
        if choices > self.most:
            raise ApiError(400, f"{choices} choices at once are asked for; this server takes at most {self.most}.")
        if self.inside + choices > self.most:
            raise ApiError(
                429,
                f"{self.inside} choices are running or waiting already; try again later.",
                code="queue_full",
                retry_after=self.retry_after(),
            )
        self.inside += choices

    def leave(self, choices: int, seconds: float) -> None:
        """Give places back after so many seconds."""
        self.inside -= choices
        self._mean += 0.2 * (seconds - self._mean)

    def retry_after(self) -> int:
        """Seconds after which a place is likely to be free."""
        waiting = max(1, self.inside - self._running)
        return min(LONGEST_RETRY, max(1, math.ceil(self._mean * waiting / self._running)))


class Call:
    """One request under way, which its client, its time limit or the end of the server may end.

    Args:
        gate: where it has its places; `close` gives them back.
        choices: how many.
        seconds: its time limit; 0 is none.
        registry: of calls under way; it enters itself there.
    """

    def __init__(self, gate: Gate, choices: int, *, seconds: float, registry: set[Call]) -> None:
        gate.enter(choices)
        self._gate, self._choices, self._registry = gate, choices, registry
        self._begin = time.monotonic()
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.error: ApiError | None = None
        registry.add(self)
        if seconds:
            late = ApiError(408, f"the request took longer than {seconds:g} s.", code="timeout")
            self._timer = asyncio.get_running_loop().call_later(seconds, self.end, late)

    def end(self, error: ApiError) -> None:
        """End it with an error for its client."""
        if self.error is None:
            self.error = error
            if self._task is not None:
                self._task.cancel()

    async def run(self, work: Coroutine[Any, Any, Value], receive: Receive) -> Value:
        """The result of `work`, which is cancelled when the client leaves or the call is ended.

        Raises:
            ClientGone: the client left. ApiError: the call was ended, unless `work` deals with its cancellation.
        """
        task = self._task = asyncio.create_task(work)
        gone = asyncio.create_task(disconnected(receive))
        if self.error is not None:
            task.cancel()
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            if task.cancelled() and self.error is not None:
                raise self.error
            return task.result()
        finally:
            task.cancel()
            gone.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    def close(self) -> None:
        """Give the places back; closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._registry.discard(self)
        self._gate.leave(self._choices, time.monotonic() - self._begin)


async def disconnected(receive: Receive) -> None:
    """Wait until the client has left. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
