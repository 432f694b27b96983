"""The process: one application on a socket, signals, and an end in order.

The first SIGTERM or SIGINT stops taking requests and lets those under way finish for `drain_seconds`; then they end
with an error. A second signal ends everything at once. Must not know: paths, wire formats.
Tests: tests/server/test_process.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from saguaro.async_llm import AsyncLLM
from saguaro.server.app import build_app
from saguaro.server.connection import connections
from saguaro.server.errors import ApiError
from saguaro.server.front import Front
from saguaro.server.listening import BACKLOG
from saguaro.server.options import ServerOptions

log = logging.getLogger(__name__)

CUT_SECONDS = 2.0
"""After the drain, so long do clients have to read why their requests ended."""
ENDED_IN_ORDER, ENGINE_LOST = 0, 1


def serve(llm: AsyncLLM, options: ServerOptions, listener: socket.socket, *, ready: Callable[[], None]) -> int:
    """Serve until a signal; returns the exit status. `ready` is called once requests are answered. The engine is left
    open.
    """
    front = Front(llm, options)
    # What lives now lives on, vocabularies above all: a collection of garbage that walks through them holds up every
    # stream, for 20 ms and more.
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_Process(front, listener, ready).run())
    finally:
        front.close()


class _Server(uvicorn.Server):
    """Signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Process:
    def __init__(self, front: Front, listener: socket.socket, ready: Callable[[], None]) -> None:
        self._front, self._listener, self._ready = front, listener, ready
        config = uvicorn.Config(
            build_app(front),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http=connections(front.options),
            loop="asyncio",
            server_header=False,
            backlog=BACKLOG,
        )
        self._server = _Server(config)
        self._status = ENDED_IN_ORDER

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told, number)
        looking = asyncio.create_task(self._look_after_engine())
        loop.call_soon(self._ready)
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            looking.cancel()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        return self._status

    def _told(self, number: signal.Signals) -> None:
        """A signal to end came."""
        if self._front.closing:
            log.warning("told again to stop: stopping at once")
            self._status = 128 + number
            self._server.force_exit = True
            return
        seconds = self._front.options.drain_seconds
        log.info("told to stop: %d requests may go on for %g s", len(self._front.calls), seconds)
        self._stop(seconds)

    def _stop(self, seconds: float) -> None:
        self._front.closing = True
        self._server.should_exit = True
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self._front.end_all, ApiError(503, "the server has stopped.", code="stopping"))
        loop.call_later(seconds + CUT_SECONDS, setattr, self._server, "force_exit", True)

    async def _look_after_engine(self) -> None:
        """Have the engine kept; end when it is lost, where that is wanted."""
        await self._front.keeper.run()
        if self._front.options.on_engine_death == "exit" and not self._front.closing:
            self._status = ENGINE_LOST
            self._stop(0.0)
