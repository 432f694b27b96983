"""The main of a worker process: `python -m saguaro.engine.worker`, started by `launch.py` and by nothing else.

A worker pins itself to its cores before it imports torch, loads its model, says hello, and then loops until its parent
closes the pipe: the end of the parent, however it comes, is the end of the worker. Control messages are pairs
(name, value) over an inherited socket pair that has no name on the machine. Tests: tests/processes/.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from saguaro.errors import SaguaroError

if TYPE_CHECKING:
    from saguaro.engine.resolve import Plan
    from saguaro.transport.mailbox import MailboxShape

IDLE_SECONDS = 0.02


def main() -> None:
    """Run the role that the parent sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the parent, which closes us in order
    connection = Connection(int(sys.argv[1]))
    _end_with_parent(connection)
    role, cores = sys.argv[2], [int(core) for core in sys.argv[3].split(",")]
    os.sched_setaffinity(0, cores)
    os.environ["OMP_NUM_THREADS"] = str(len(cores))
    try:
        name, value = connection.recv()
        assert name == "plan"
        import torch

        torch.set_num_threads(len(cores))
        logging.basicConfig(level=logging.WARNING, format=f"saguaro {role}: %(message)s")
        with torch.inference_mode():
            if role == "target":
                run_target(connection, *value)
            else:
                run_draft(connection, *value)
    except (EOFError, ConnectionError):  # the parent has gone, perhaps with events unread
        os._exit(0)
    except SaguaroError as error:
        _last_words(connection, type(error).__name__, str(error))
    except Exception as error:
        logging.getLogger(__name__).exception("worker failed")
        _last_words(connection, "WorkerDied", f"the {role} worker failed: {type(error).__name__}: {error}.")


def _last_words(connection: Connection, kind: str, message: str) -> None:
    with contextlib.suppress(OSError):
        connection.send(("failed", (kind, message)))
    os._exit(1)


def _end_with_parent(connection: Connection) -> None:
    """A thread that waits for the parent's end of the pipe to close, also while a model loads."""

    def watch() -> None:
        poller = select.poll()
        poller.register(connection.fileno(), select.POLLHUP | select.POLLRDHUP)
        while not poller.poll(1000):
            pass
        time.sleep(0.5)  # a worker that is about to read the end of file itself leaves in order
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def run_target(connection: Connection, plan: Plan) -> None:
    """The target's loop: commands between rounds, rounds while there is work."""
    from saguaro.engine.build import build_draft, build_target
    from saguaro.transport.loopback import Loopback

    worker = build_target(plan, lambda events: connection.send(("events", events)))
    local: Any = None
    if plan.mode == "sd":
        port = Loopback()
        local = build_draft(plan, port)
        port.step = local.step
        worker.attach(port)
    heard = _listening(connection)
    _ready(connection)
    while True:
        busy = worker.step()
        while heard(0 if busy else 0.05):
            name, value = connection.recv()
            _target_command(worker, local, connection, name, value)
            busy = True


def _listening(connection: Connection) -> Callable[[float], bool]:
    """Whether there is something to read within so many seconds.

    It is asked after every step: it takes 1.3 us where `Connection.poll`, which makes a selector each time, takes 8.
    """
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return lambda seconds: bool(poller.poll(1000 * seconds))


def _ready(connection: Connection) -> None:
    """Say so; what lives now lives on, so later collections of garbage need not walk through vocabularies."""
    gc.collect()
    gc.freeze()
    connection.send(("hello", {"pid": os.getpid()}))


def _target_command(worker: Any, local: Any, connection: Connection, name: str, value: Any) -> None:
    from saguaro.transport.mailbox import MailboxTarget

    if name == "submit":
        worker.submit(value)
    elif name == "abort":
        worker.abort(value)
    elif name == "configure":
        worker.configure(value)
    elif name == "draft":
        worker.attach(_open_mailbox(MailboxTarget, *value))
        connection.send(("attached", value[1].generation))
    elif name == "no_draft":
        worker.attach(None)
    elif name == "measure":
        both = [worker] if local is None else [worker, local]
        connection.send(("measured", [each.measure(**value) for each in both]))
    elif name == "learn":
        worker.shifting.learn(value)
    elif name == "statistics":
        drafts = {} if local is None else {"draft": local.statistics()}
        connection.send(("statistics", worker.statistics() | drafts))
    elif name == "trace":
        rings = [worker.trace] if local is None else [worker.trace, local.activity.trace]
        connection.send(("trace", [ring.take() for ring in rings if ring is not None]))
    elif name == "observations":
        connection.send(("observations", local.observations()))


def _open_mailbox(kind: type, path: str, shape: MailboxShape) -> Any:
    descriptor = os.open(path, os.O_RDWR)
    try:
        return kind(descriptor, shape)
    finally:
        os.close(descriptor)


def run_draft(connection: Connection, plan: Plan, descriptor: int, shape: MailboxShape) -> None:
    """The draft's loop: a step while there is work, else sleep until news comes."""
    from saguaro.engine.build import build_draft
    from saguaro.transport.mailbox import MailboxDraft

    port = MailboxDraft(descriptor, shape)
    os.close(descriptor)
    worker = build_draft(plan, port)
    port.beat(0.0, 0.0, 0.0)
    heard = _listening(connection)
    _ready(connection)
    while True:
        if not worker.step():
            worker.beat()
            port.wait_news(IDLE_SECONDS)
        while heard(0):  # whoever asks waits, and the texts of all requests with it
            name, value = connection.recv()
            if name == "measure":
                connection.send(("measured", worker.measure(**value)))
            elif name == "statistics":
                connection.send(("statistics", worker.statistics()))
            elif name == "trace" and worker.activity.trace is not None:
                connection.send(("trace", worker.activity.trace.take()))
            elif name == "observations":
                connection.send(("observations", worker.observations()))


if __name__ == "__main__":
    main()
