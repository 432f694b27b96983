"""How tests call the command: as a process where start-up and exit status matter, in this process otherwise."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from saguaro.cli.main import main

TOY = ("--target", "toy:llama?seed=0", "--draft", "toy:llama?seed=0&noise=0.03", "--channel", "loopback")
FIXED = ("--lookahead", "3", "--budget", "6", "--pacing", "lockstep")


@dataclass(frozen=True)
class Done:
    """An ended command."""

    status: int
    out: str
    err: str
    seconds: float


@pytest.fixture
def toy() -> tuple[str, ...]:
    """Flags of a pair of tiny models in one process, with nothing to measure at start."""
    return (*TOY, *FIXED)


@pytest.fixture
def command(tmp_path):
    """Run the real command in a process of its own."""

    def run(*arguments, stdin="", environment=None, timeout=60) -> Done:
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "saguaro", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=tmp_path,
            env={**os.environ, **(environment or {})},
        )
        return Done(done.returncode, done.stdout, done.stderr, time.monotonic() - begin)

    return run


@pytest.fixture
def here(capsys, monkeypatch):
    """Run the command in this process (no interpreter to start)."""
    monkeypatch.setattr("saguaro.cli.main._finish_on_signals", lambda: None)

    def run(*arguments) -> Done:
        begin = time.monotonic()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err, time.monotonic() - begin)

    return run
