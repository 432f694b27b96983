"""Keeps an engine running: one that is stuck is found and ended, one that is lost is replaced, with back-off.

An engine is stuck when it has not answered for `patience` seconds. It is asked every quarter of that, and once more
after `GRACE_SECONDS`, so that a server that was stopped itself does not blame its engine: a stuck one is found after at
most 1.25 x patience + 2 s. Must not know: HTTP beyond errors, processes. Tests: tests/server/test_keeper.py,
tests/server/test_faults.py.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import Protocol

from saguaro.engine.driver import LOST
from saguaro.errors import SaguaroError
from saguaro.server.errors import ApiError
from saguaro.server.health import Watch

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
GRACE_SECONDS = 1.0
KILL_SECONDS = 5.0
"""So long after it was ended by force, an engine that still counts as open runs in this process and cannot be ended."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
LONGEST_RETRY = 60
GUESSED_LOAD = 5.0
"""Seconds that a start is taken to last until one was seen."""


class Kept(Protocol):
    """What is kept: an `AsyncLLM`, or a stand-in for tests."""

    @property
    def is_open(self) -> bool: ...

    @property
    def error(self) -> SaguaroError | None: ...

    def kill(self, reason: str) -> None: ...

    async def reopen(self) -> None: ...


class Keeper:
    """Looks after the engine of one server.

    Args:
        llm: the engine.
        watch: asks it for signs of life.
        policy: `restart`, `stay` or `exit` (`ServerOptions.on_engine_death`).
        patience: seconds of silence after which an engine is ended.

    Attributes:
        restarts: engines that were started in place of lost ones.
    """

    def __init__(self, llm: Kept, watch: Watch, *, policy: str, patience: float) -> None:
        self._llm, self._watch = llm, watch
        self._policy, self._patience = policy, patience
        self.restarts = 0
        self._pause = FIRST_PAUSE
        self._load = GUESSED_LOAD
        self._began = time.monotonic()
        self._ready_at: float | None = None

    # -- what clients are told --------------------------------------------------------------------------------------

    def refusal(self) -> ApiError | None:
        """Why no request is taken now; None while the engine lives."""
        return None if self._llm.is_open else self._error(f"{self.why()}.")

    def told(self, error: SaguaroError) -> ApiError:
        """What a request says that was under way when the engine was lost."""
        return self._error(f"the engine was lost before this request was answered: {cause(error)}.")

    def why(self) -> str:
        """Why the engine serves nobody, and what follows, without a full stop."""
        error = self._llm.error
        reason = "the engine is lost" if error is None else f"the engine is lost: {cause(error)}"
        if self._policy == "restart":
            return f"{reason}; a new one is starting, try again later"
        return f"{reason}; it is not restarted, start the server anew"

    def _error(self, message: str) -> ApiError:
        if self._policy == "restart":
            return ApiError(503, message, code="engine_restarting", retry_after=self._retry_after())
        return ApiError(503, message, code="engine_lost")

    def _retry_after(self) -> int:
        """Seconds until a new engine is likely to serve."""
        ready = time.monotonic() + self._pause + self._load if self._ready_at is None else self._ready_at
        return min(LONGEST_RETRY, max(1, math.ceil(ready - time.monotonic())))

    # -- looking after it -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look after the engine; ends when it is lost and not replaced."""
        while True:
            await self._until_lost()
            log.error("%s", self.why())
            if self._policy != "restart":
                return
            await self._replace()

    async def _until_lost(self) -> None:
        asked = time.monotonic()
        while self._llm.is_open:
            await asyncio.sleep(min(LOOK_SECONDS, self._patience / 4))
            if self._llm.is_open and time.monotonic() - asked >= self._patience / 4:
                if await self._is_stuck():
                    await self._end()
                asked = time.monotonic()

    async def _is_stuck(self) -> bool:
        """Whether it says nothing, now and a moment later."""
        for pause in (0.0, GRACE_SECONDS):
            await asyncio.sleep(pause)
            try:
                if await self._watch.statistics() is not None:
                    return False
            except SaguaroError:  # it is lost, or gave up waiting for its target
                await asyncio.sleep(GRACE_SECONDS)
                return self._llm.is_open
        return True

    async def _end(self) -> None:
        log.error("the engine has said nothing for %g s and is ended", self._patience)
        self._llm.kill(f"the engine had said nothing for {self._patience:g} s.")
        try:
            async with asyncio.timeout(KILL_SECONDS):
                while self._llm.is_open:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            log.error("the stuck engine cannot be ended: it runs in the process of the server")

    async def _replace(self) -> None:
        """Start engines until one serves."""
        if time.monotonic() - self._began > LONGEST_PAUSE:
            self._pause = FIRST_PAUSE  # it had lived long enough
        while True:
            pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
            self._ready_at = time.monotonic() + pause + self._load
            await asyncio.sleep(pause)
            begin = time.monotonic()
            try:
                await self._llm.reopen()
            except Exception as error:
                log.error("no new engine started: %s; the next try is in %g s", error, self._pause)
                continue
            self._load, self._began, self._ready_at = time.monotonic() - begin, time.monotonic(), None
            self._watch.forget()
            self.restarts += 1
            log.warning("a new engine serves, after %.1f s", self._load)
            return


def cause(error: SaguaroError) -> str:
    """What happened to the engine, without what users of the Python interface are told, and without a full stop."""
    return str(error).removesuffix(LOST).strip().rstrip(".")
