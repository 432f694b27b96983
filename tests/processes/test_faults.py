"""Real signals on real processes: the text is completed and identical, and nothing is left behind (B79)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.lossless.conftest import DRAFT, TARGET

from saguaro import LLM, SamplingParams, WorkerDied

pytestmark = pytest.mark.processes

LONG = SamplingParams(temperature=1.0, max_tokens=600, seed=3, ignore_eos=True)
SIZES = {"max_model_len": 1024, "max_batch": 2, "dtype": "float32"}


@pytest.fixture(scope="module")
def expected() -> list[int]:
    with LLM(TARGET, mode="ar", channel="loopback", **SIZES) as llm:
        return llm.generate([1, 2, 3], LONG)[0].token_ids


def draft_pid(llm: LLM) -> int:
    return llm._engine.supervisor.current.worker.process.pid


def test_a_stopped_draft_keeps_nobody_waiting_who_asks_for_figures() -> None:
    with LLM(TARGET, DRAFT, mode="ssd", lookahead=3, budget=6, **SIZES) as llm:
        assert llm.statistics()["draft"] is not None
        pid = draft_pid(llm)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.0)  # silent for longer than a draft that works ever is
        assert llm.statistics()["draft"] is None
        with contextlib.suppress(ProcessLookupError):  # on a slow machine it may have been given up already
            os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + 30
        while llm.statistics()["draft"] is None:
            llm._engine.poll(0.1)
            assert time.monotonic() < deadline


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_killed_or_stopped_draft_is_replaced(
    number: int, expected: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with LLM(TARGET, DRAFT, mode="ssd", lookahead=3, budget=6, **SIZES) as llm:
        first, tokens, hits_before = draft_pid(llm), [], 0
        for delta in llm.stream([1, 2, 3], LONG):
            tokens += delta.token_ids
            if len(tokens) > 100 and hits_before == 0:
                hits_before = delta.origins.count("hit") + 1
                os.kill(first, number)
        assert tokens == expected
        deadline = time.monotonic() + 30
        while llm.statistics()["draft_restarts"] == 0 or not llm._engine.supervisor.current.ready:
            llm._engine.poll(0.1)
            assert time.monotonic() < deadline
        assert draft_pid(llm) != first
        llm.configure(pacing="lockstep")  # a target so small does not wait for a draft otherwise
        again = llm.generate([1, 2, 3], LONG)[0]
        assert again.token_ids == expected
        assert again.metrics.hits > 0
        assert sum("requests go on without it" in each for each in llm.statistics()["warnings"]) == 1
    assert sum("requests go on without it" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("fault", ["slow", "garble"])
def test_a_slow_or_lying_draft_changes_nothing(fault: str, expected: list[int]) -> None:
    options = {"drafter": "saguaro.testing.drafters:FaultyDrafter", "drafter_options": {"fault": fault}}
    short = SamplingParams(temperature=1.0, max_tokens=80, seed=3, ignore_eos=True)
    with LLM(TARGET, DRAFT, mode="ssd", lookahead=3, budget=6, **options, **SIZES) as llm:
        assert llm.generate([1, 2, 3], short)[0].token_ids == expected[:80]
        deadline = time.monotonic() + 30
        while (
            fault == "garble" and not llm.statistics()["garbled_entries"]
        ):  # whether one is looked at depends on speed
            assert llm.generate([1, 2, 3], short)[0].token_ids == expected[:80]
            assert time.monotonic() < deadline


def test_a_dead_target_is_an_error_that_names_it() -> None:
    llm = LLM(TARGET, DRAFT, mode="ssd", lookahead=3, budget=6, **SIZES)
    try:
        stream = llm.stream([1, 2, 3], LONG)
        next(stream)
        os.kill(llm._engine._target.process.pid, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="target process ended"):
            list(stream)
    finally:
        llm.close()


def test_two_engines_at_once_do_not_disturb_each_other(expected: list[int]) -> None:  # R12, B83
    short = SamplingParams(temperature=1.0, max_tokens=60, seed=3, ignore_eos=True)
    with (
        LLM(TARGET, DRAFT, mode="ssd", lookahead=3, budget=6, **SIZES) as one,
        LLM(TARGET, DRAFT, mode="ssd", lookahead=2, budget=6, **SIZES) as two,
    ):
        streams = [one.stream([1, 2, 3], short), two.stream([1, 2, 3], short)]
        texts: list[list[int]] = [[], []]
        while streams[0] or streams[1]:
            for i, stream in enumerate(streams):
                delta = next(stream, None) if stream else None
                if delta is None:
                    streams[i] = None
                else:
                    texts[i] += delta.token_ids
        one.close()
        assert texts == [expected[:60]] * 2
        assert two.generate([1, 2, 3], short)[0].token_ids == expected[:60]


PROGRAM = f"""
import os, sys
from saguaro import LLM, SamplingParams
llm = LLM({TARGET!r}, {DRAFT!r}, mode="ssd", lookahead=3, budget=6, max_model_len=1024, dtype="float32")
pids = [llm._engine._target.process.pid, llm._engine.supervisor.current.worker.process.pid]
print(*pids, flush=True)
for delta in llm.stream([1, 2, 3], SamplingParams(max_tokens=1000, ignore_eos=True)):
    if sys.argv[1] == "raise":
        raise RuntimeError("user code")
while True:
    llm.generate([1, 2, 3], SamplingParams(max_tokens=1000, ignore_eos=True))
"""


def with_default_signals() -> None:
    """A suite that runs in the background inherits an ignored SIGINT; the program under test must not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.mark.parametrize("end", ["raise", "SIGINT", "SIGTERM", "SIGKILL"])
def test_however_the_parent_ends_nothing_stays(end: str, tmp_path: Path) -> None:  # B79
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    shared_before = set(os.listdir("/dev/shm"))
    process = subprocess.Popen(
        [sys.executable, str(script), end],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=with_default_signals,
    )
    assert process.stdout is not None
    try:
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        if end.startswith("SIG"):
            time.sleep(0.3)
            process.send_signal(getattr(signal, end))
        assert process.wait(timeout=20) != 0
        deadline = time.monotonic() + 5
        while not all(gone(pid) for pid in pids):
            assert time.monotonic() < deadline, "a worker outlived its parent"
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert set(os.listdir("/dev/shm")) <= shared_before
