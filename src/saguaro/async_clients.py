"""What calls of an event loop wait for, and how events of the engine's thread get there (`async_llm.py`).

All events of a round reach a loop by one call-back. Must not know: how calls begin, workers. Tests: tests/llm/.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from saguaro.choices import Choice, error_of, merged
from saguaro.engine.driver import Driver
from saguaro.engine.interface import about
from saguaro.engine.target import Event, Failure
from saguaro.errors import SaguaroError
from saguaro.request import Delta


class Client:
    """What one call waits for: its choices under way and, for a stream, at most one delta that was not read.

    All of it belongs to the loop of the call; the engine's thread only schedules `take` and `fail` there.
    """

    def __init__(self, driver: Driver[Client], *, streams: bool, news: asyncio.Event | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.open: dict[int, Choice] = {}
        self._driver = driver
        self._streams = streams
        self._delta: Delta | None = None
        self._error: Exception | None = None
        self._news = news or asyncio.Event()

    async def next_delta(self) -> Delta | None:
        """What came since the last piece, or None after the last one."""
        while self._delta is None and self.open:
            self._news.clear()
            await self._news.wait()
        return self.piece()

    def piece(self) -> Delta | None:
        """What came since the last piece, if anything did; raises what the request ended with once all is read."""
        delta, self._delta = self._delta, None
        if delta is None:
            self._raise()
        return delta

    @property
    def ended(self) -> bool:
        """Whether all is read, also how it ended."""
        return not self.open and self._delta is None

    async def finished(self) -> None:
        """Wait for the end of all choices."""
        while self.open:
            self._news.clear()
            await self._news.wait()
        self._raise()

    def take(self, event: Event) -> None:
        """One event of the engine."""
        number, ended = about(event)
        choice = self.open.get(number)
        if choice is None:
            return  # left, or ended at a stop string, while the event was under way
        if isinstance(event, Failure):
            self.fail(error_of(event))
            return
        try:
            delta = choice.add(event[1])
        except Exception as error:  # the caller must hear of it: nobody else waits for this request
            self.fail(error)
            return
        if delta.finish_reason is not None:
            del self.open[number]
            if not ended:  # at a stop string, of which the engine knows nothing
                self._driver.abort(number)
        self._show(delta)

    def _show(self, delta: Delta) -> None:
        if self._streams:
            self._delta = delta if self._delta is None else merged(self._delta, delta)
        if self._streams or not self.open:
            self._news.set()

    def fail(self, error: Exception) -> None:
        """End with an error, which comes after what is there to read."""
        if self.open:
            self._error = error
            self.leave()

    def leave(self) -> None:
        """End what runs. A collection of garbage may call this in any thread; nobody reads then."""
        numbers, self.open = list(self.open), {}
        for number in numbers:
            self._driver.abort(number)
        self._news.set()

    def abort(self) -> None:
        """End what runs as an answer, not as an error."""
        choices = list(self.open.values())
        self.leave()
        for choice in choices:
            self._show(choice.abort())

    def on_loop(self, function: Callable[[], None]) -> None:
        """Call a function in the client's loop: now when that is the loop that runs here, else soon."""
        if asyncio.get_running_loop() is self.loop:
            function()
        else:
            _schedule(self.loop, function)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


def deliver(batch: Sequence[tuple[Client, Event]]) -> list[Client]:
    """Hand events to the loops of their clients, one call-back a loop; returns clients whose loop is closed."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Client, Event]]] = {}
    for client, event in batch:
        by_loop.setdefault(client.loop, []).append((client, event))
    gone: list[Client] = []
    for loop, pairs in by_loop.items():
        if not _schedule(loop, _take, pairs):
            gone += [client for client, _ in pairs]
    return gone


def _take(pairs: Sequence[tuple[Client, Event]]) -> None:
    for client, event in pairs:
        client.take(event)


def lose(clients: Sequence[Client], error: SaguaroError) -> None:
    """Tell clients that no answer will come, each by an exception of its own."""
    for client in clients:
        _schedule(client.loop, client.fail, type(error)(str(error)))


def _schedule(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> bool:
    """Have a loop call a function soon; False when it is closed, and with it all who waited there."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise
        return False
    return True
