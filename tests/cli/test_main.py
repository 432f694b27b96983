"""Dispatch, exit statuses, and one sentence for every mistake."""

import os
import signal
import subprocess
import sys
import time

import pytest

from saguaro.cli.main import COMMANDS
from saguaro.errors import CapacityError, RequestRefused, WeightsError, WorkerDied


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(here, name, capsys):
    with pytest.raises(SystemExit) as left:
        here(name, "--help")
    assert left.value.code == 0
    assert f"usage: saguaro {name}" in capsys.readouterr().out


def test_usage_names_every_command(here):
    assert here("--help").status == 0
    assert here().status == 2
    assert all(name in here("--help").out for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["generat"], "did you mean 'generate'?"),
        (["generate", "--traget", "x"], "did you mean '--target'?"),
        (["generate", "--target", "toy:llama", "--prompt", "x", "--max-token", "3"], "did you mean '--max-tokens'?"),
        (["bench", "--target", "toy:llama", "--prompts", "x", "--repeat", "3"], "did you mean '--repeats'?"),
        (["pull", "smolm"], "did you mean 'smollm2'?"),
        (["generate", "--target", "toy:lama", "--prompt", "x"], "did you mean 'llama'?"),
        (["generate", "--target", "toy:llama", "--prompt", "x", "--mode", "sdd"], "did you mean"),
        (["bench", "--target", "toy:llama", "--prompts", "x", "--modes", "a"], "ar, sd, ssd"),
    ],
)
def test_nearest_name(here, arguments, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text('{"prompt": "a"}\n' * 16)
    done = here(*arguments)
    assert done.status == 2
    assert hint in done.err


def test_extra_argument(here):
    done = here("doctor", "surprise")
    assert (done.status, "unexpected argument 'surprise'" in done.err) == (2, True)


def raising(error):
    def run(options):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (WorkerDied("the target process is gone."), 1, "the target process is gone."),
        (CapacityError("no room."), 1, "no room."),
        (WeightsError("damaged."), 2, "damaged."),
        (RequestRefused("too long."), 2, "too long."),
        (FileNotFoundError(2, "No such file or directory", "lost.txt"), 2, "lost.txt: No such file or directory."),
        (OSError(28, "No space left on device", "disk"), 1, "disk: No space left on device."),
        (TypeError("boom"), 1, "internal error (TypeError: boom)"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_exit_status_of_errors(here, monkeypatch, error, status, text):
    monkeypatch.setattr("saguaro.cli.doctor.run", raising(error))
    done = here("doctor")
    assert done.status == status
    assert text in done.err
    assert "Traceback" not in done.err


def test_traceback_only_when_asked(here, monkeypatch):
    monkeypatch.setattr("saguaro.cli.doctor.run", raising(TypeError("boom")))
    assert "Traceback" in here("doctor", "--traceback").err
    assert "Traceback" in here("--traceback", "doctor").err


def test_module_and_version(command):
    done = command("--version")
    assert done.status == 0
    assert done.out.startswith("saguaro ")


def with_default_signals():
    """A suite that runs in the background inherits an ignored SIGINT; the command under test must not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_signals_unwind(number, status, tmp_path):
    """A command that was told to stop runs its clean-up and says how it ended."""
    mark = tmp_path / "cleaned"
    code = f"""
import pathlib, sys, time
from saguaro.cli import doctor, main
def run(options):
    try:
        print("ready", flush=True)
        time.sleep(30)
    finally:
        pathlib.Path({str(mark)!r}).touch()
doctor.run = run
sys.exit(main.main(["doctor"]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, preexec_fn=with_default_signals
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(10) == status
    assert mark.exists()


def test_reader_that_goes_away(tmp_path):
    """`saguaro ... | head` ends without a traceback."""
    code = "import sys; from saguaro.cli.main import main; sys.exit(main(['pull', '--list']))"
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (141, "")


def test_help_is_quick():
    begin = time.monotonic()
    subprocess.run([sys.executable, "-m", "saguaro", "generate", "--help"], check=True, capture_output=True)
    assert time.monotonic() - begin < 2
