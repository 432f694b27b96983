"""One thread that owns an engine: commands come in from any thread, events go out by call-backs.

    any thread  ── submit, abort, call ──▶  queue + alarm  ──▶  the engine's thread  ── deliver, lose ──▶  owners

The thread obeys commands between polls, and the alarm ends a poll at once, so that an abort reaches the workers before
the next round. It knows which requests run: one that the engine has ended is never aborted, one that is aborted gets
no further event, and when the engine is lost or closed every owner hears of it. Must not know: text, asyncio.
Tests: tests/engine/test_driver.py.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from saguaro.engine.interface import Engine, about
from saguaro.engine.resolve import Plan
from saguaro.engine.sequence import Submission
from saguaro.engine.target import Event
from saguaro.errors import SaguaroError, WorkerDied

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
LOST = "The engine is lost; make a new one."
Owner = TypeVar("Owner", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class _Command:
    """What the thread is to do, and what to do instead when it does nothing any more."""

    act: Callable[[Engine], None]
    refuse: Callable[[SaguaroError], None]


class Driver(Generic[Owner]):
    """Opens an engine in a thread of its own and drives it until `stop`.

    Args:
        open_engine: makes the engine, in the thread that will own it.
        deliver: takes the events of one poll with the owners of their requests; returns owners that are gone, whose
            requests end. Called by the thread, must not block.
        lose: takes owners whose requests will not be answered, and why. Called by the thread, must not block.

    Raises:
        Whatever `open_engine` raises.
    """

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        *,
        deliver: Callable[[Sequence[tuple[Owner, Event]]], Iterable[Owner]],
        lose: Callable[[Sequence[Owner], SaguaroError], None],
    ) -> None:
        self._deliver, self._lose = deliver, lose
        # Reentrant: a collection of garbage in the middle of a command may end another request.
        self._lock = threading.RLock()
        self._commands: deque[_Command] = deque()
        self._stopping = False
        self._error: SaguaroError | None = None
        self._killed: str | None = None
        self._engine: Engine | None = None
        self._owners: dict[int, Owner] = {}  # of requests that run; the thread's own
        self._ended: Future[None] = Future()
        self._ended.set_running_or_notify_cancel()
        opened: Future[Plan] = Future()
        threading.Thread(target=self._run, args=(open_engine, opened), daemon=True, name="saguaro-engine").start()
        try:
            self.plan = opened.result()
        except BaseException:
            self.stop()
            raise

    # -- any thread -----------------------------------------------------------------------------------------------

    def submit(self, owner: Owner, submissions: Sequence[Submission]) -> None:
        """Start requests of an owner.

        Raises:
            SaguaroError: the engine is closed; WorkerDied: it is lost.
        """

        def act(engine: Engine) -> None:
            for submission in submissions:
                self._owners[submission.request] = owner
                engine.submit(submission)

        self._send(_Command(act, lambda error: self._lose([owner], error)))

    def abort(self, request: int) -> None:
        """End a request; one that has ended, or that was never submitted, is left alone."""

        def act(engine: Engine) -> None:
            if self._owners.pop(request, None) is not None:
                engine.abort(request)

        with contextlib.suppress(SaguaroError):  # no engine, no request
            self._send(_Command(act, lambda error: None))

    def call(self, function: Callable[[Engine], Value]) -> Future[Value]:
        """The result of a function of the engine, which runs between two polls.

        Raises:
            SaguaroError, WorkerDied: as `submit`; the future holds what the function raises.
        """
        future: Future[Any] = Future()

        def act(engine: Engine) -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(engine))
                except Exception as error:
                    future.set_exception(error)

        def refuse(error: SaguaroError) -> None:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

        self._send(_Command(act, refuse))
        return future

    def owners(self) -> Future[list[Owner]]:
        """Those whose requests run; raises as `call`."""
        return self.call(lambda engine: list(dict.fromkeys(self._owners.values())))

    @property
    def is_open(self) -> bool:
        """Whether requests are taken."""
        return self._error is None and not self._stopping

    @property
    def error(self) -> SaguaroError | None:
        """Why no requests are taken; None while they are, and while the engine is being closed."""
        return self._error

    def kill(self, reason: str) -> None:
        """End a stuck engine by force: whoever waits for it is told the reason. What runs in this process cannot be
        ended so; then nothing happens.
        """
        engine = self._engine
        if engine is not None and self.is_open:
            self._killed = reason
            engine.kill()

    def stop(self) -> Future[None]:
        """Lose all requests and close the engine; the future tells when that is done. Stopping twice is fine."""
        self._stopping = True
        self._wake()
        return self._ended

    def _send(self, command: _Command) -> None:
        with self._lock:
            if self._error is not None:
                raise _again(self._error)
            self._commands.append(command)
        self._wake()

    def _wake(self) -> None:
        if self._engine is not None:
            self._engine.alarm.ring()

    # -- the engine's thread --------------------------------------------------------------------------------------

    def _run(self, open_engine: Callable[[], Engine], opened: Future[Plan]) -> None:
        try:
            engine = self._engine = open_engine()
        except BaseException as error:
            self._end(SaguaroError("the engine did not start."))
            self._ended.set_result(None)
            opened.set_exception(error)
            return
        opened.set_result(engine.plan)
        error_: SaguaroError = SaguaroError("the engine is closed; make a new one.")
        try:
            while self._obey(engine):
                self._hand_out(engine, engine.poll(POLL_SECONDS))
        except SaguaroError as error:
            error_ = WorkerDied(f"{self._killed or error} {LOST}")
        except Exception as error:
            log.exception("the engine failed")
            error_ = WorkerDied(f"the engine failed: {type(error).__name__}: {error}. {LOST}")
        try:
            self._end(error_)
            engine.close()
        finally:
            self._ended.set_result(None)

    def _obey(self, engine: Engine) -> bool:
        """Do what was asked since the last poll; False when it is time to stop."""
        while self._commands and not self._stopping:
            self._commands.popleft().act(engine)
        return not self._stopping

    def _hand_out(self, engine: Engine, events: Sequence[Event]) -> None:
        batch = []
        for event in events:
            request, ended = about(event)
            owner = self._owners.get(request)
            if owner is None:
                continue  # aborted while the event was under way
            if ended:
                del self._owners[request]
            batch.append((owner, event))
        gone = set(self._deliver(batch)) if batch else set()
        if gone:
            for request in [number for number, owner in self._owners.items() if owner in gone]:
                del self._owners[request]
                engine.abort(request)

    def _end(self, error: SaguaroError) -> None:
        """Take no more commands; say so to everyone who waits."""
        with self._lock:
            self._error = error
            refused, self._commands = self._commands, deque()
        owners = list(dict.fromkeys(self._owners.values()))
        self._owners.clear()
        if owners:
            self._lose(owners, error)
        for command in refused:
            command.refuse(error)


def _again(error: SaguaroError) -> SaguaroError:
    """The same error for another caller: one exception object would gather the tracebacks of all."""
    return type(error)(str(error))


def opening(make: Callable[[], Driver[Owner]]) -> Future[Driver[Owner]]:
    """What `make` gives, from a thread that nobody has to wait for; cancelling it ends the engine that was made."""
    opened: Future[Driver[Owner]] = Future()

    def work() -> None:
        try:
            driver = make()
        except Exception as error:
            with contextlib.suppress(InvalidStateError):
                opened.set_exception(error)
            return
        try:
            opened.set_result(driver)
        except InvalidStateError:  # whoever wanted it has gone
            driver.stop()

    threading.Thread(target=work, daemon=True, name="saguaro-opening").start()
    return opened
