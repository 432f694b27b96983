"""The command `saguaro serve` in a process of its own, and what is seen of it from outside.

    with serving("--target", "toy:llama", "--mode", "ar") as server:
        server.get("/health")

Must not know: how a server works. Tests: tests/server/test_process.py, tests/server/test_faults.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")
PATIENCE = 60.0
TARGET, DRAFT = "toy:llama?seed=1&vocab=300&layers=2", "toy:llama?seed=1&vocab=300&layers=2&noise=0.1"
SIZES = ("--dtype", "float32", "--max-model-len", "4096")
AR = ("--target", TARGET, "--mode", "ar", *SIZES)
SSD = ("--target", TARGET, "--draft", DRAFT, "--mode", "ssd", "--lookahead", "3", "--budget", "6", *SIZES)


class Held(NamedTuple):
    """What a process has open: files and sockets, threads; and its memory in bytes."""

    files: int
    threads: int
    memory: int


class Answer(NamedTuple):
    """A status, headers in lower case, a body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class ServerProcess:
    """A server that was started. `url` waits until it serves."""

    def __init__(self, *arguments: str, **options: Any) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # a pipe that nobody reads would stop it once full
        where = {"stdout": subprocess.PIPE, "stderr": self._errors, "text": True, **options}
        self.process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", "saguaro", "serve", *arguments],
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **where,
        )  # fmt: skip
        self._url: str | None = None
        self._said: tuple[str, str] | None = None

    @property
    def url(self) -> str:
        """Where it serves, once it does."""
        if self._url is None:
            assert self.process.stdout is not None
            found = next((line for line in self.process.stdout if " at http" in line), None)
            if found is None:
                raise AssertionError(self.kill()[1])
            self._url = found.split(" at ")[1].split()[0]
        return self._url

    @property
    def port(self) -> int:
        """Of the address."""
        return int(self.url.rsplit(":", 1)[1])

    # -- asking it --------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Answer:
        """One request."""
        return ask(self.url + path)

    def post(self, path: str, body: Any) -> Answer:
        """One request with JSON."""
        return ask(self.url + path, json.dumps(body).encode())

    def health(self) -> str:
        """The status that `/health` gives."""
        status: str = self.get("/health").json()["status"]
        return status

    def metric(self, name: str) -> float:
        """A figure of `/metrics` by its name without `saguaro:`, labels included; 0 where there is none."""
        found = re.search(rf"^saguaro:{re.escape(name)} (\S+)$", self.get("/metrics").body.decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def idle(self) -> bool:
        """Whether nothing runs or waits, and no row holds a page on either side."""
        names = ("num_requests_running", "num_requests_waiting")
        pages = [f'kv_cache_usage_ratio{{side="{side}"}}' for side in ("target", "draft")]
        return not any(self.metric(name) for name in (*names, *pages))

    # -- looking at it ----------------------------------------------------------------------------------------------

    def workers(self) -> dict[str, int]:
        """Process ids of the workers by role."""
        found = {}
        for listed in Path(f"/proc/{self.process.pid}/task").glob("*/children"):  # whichever thread started them
            for number in listed.read_text().split():
                words = Path(f"/proc/{number}/cmdline").read_text().split("\0")
                found["draft" if "draft" in words else "target"] = int(number)
        return found

    def held(self) -> Held:
        """What the server's own process holds."""
        own = Path(f"/proc/{self.process.pid}")
        memory = int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return Held(len(list((own / "fd").iterdir())), len(list((own / "task").iterdir())), memory)

    def cpu_seconds(self) -> float:
        """Processor time of the server's own process, all threads, workers not included."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pin(self, core: int) -> None:
        """Let the server's own process, its workers not included, run on one core alone."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})

    # -- ending it --------------------------------------------------------------------------------------------------

    def stop(self, number: int = signal.SIGTERM) -> int:
        """The exit status after a signal; every worker must be gone soon after."""
        workers = self.workers()
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        wait_for(lambda: not any(map(alive, workers.values())), 10)
        return status

    def kill(self) -> tuple[str, str]:
        """End it whatever it does; what it had written to standard output and standard error. Twice is fine."""
        if self._said is None:
            self.process.kill()
            out, _ = self.process.communicate()
            self._errors.seek(0)
            self._said = (out or "", self._errors.read())
            self._errors.close()
        return self._said


@contextmanager
def serving(*arguments: str) -> Iterator[ServerProcess]:
    """A server at a free port under the name `toy`; it is killed at the end."""
    server = ServerProcess("--port", "0", "--served-model-name", "toy", *arguments)
    try:
        assert server.url
        yield server
    finally:
        server.kill()


def ask(url: str, body: bytes | None = None) -> Answer:
    """One request; errors are answers, too."""
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return Answer(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, {k.lower(): v for k, v in error.headers.items()}, error.read())


def alive(number: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], Value], seconds: float = PATIENCE) -> Value:
    """The first true value of a condition."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found
