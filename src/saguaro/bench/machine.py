"""What this machine is: cores, instruction sets, memory, versions, and how fast its cores read memory.

Must not know: models, engines, terminals. Tests: tests/bench/test_machine.py.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import re
import subprocess
import time
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from saguaro.device import allowed_cores

FLAGS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "amx_int8",
    "amx_bf16",
    "asimd",
    "i8mm",
    "bf16",
)
LIBRARIES = ("torch", "numpy", "safetensors", "gguf", "tokenizers")
READ_BYTES = 512 << 20  # streamed memory, far more than any cache
READ_SECONDS = 0.25
READ_WINDOWS = 4


def machine() -> dict[str, Any]:
    """What the machine is, as plain values; memory and caches in bytes."""
    info = _cpu_info()
    return {
        "cpu": info.get("model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cores": len(allowed_cores()),
        "flags": [flag for flag in FLAGS if flag in set((info.get("flags") or info.get("Features") or "").split())],
        "last_level_cache": _last_level_cache(),
        "memory": memory()["total"],
        "system": f"{platform.system()} {platform.release()}",
    }


def memory() -> dict[str, int]:
    """Total and available bytes, the smaller of the machine's and the control group's."""
    found = {}
    for line in _read("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if rest.split():
            found[name] = int(rest.split()[0]) * 1024
    total, available = found.get("MemTotal", 0), found.get("MemAvailable", 0)
    limit, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit() and int(limit) < total:
        total, available = int(limit), min(available, int(limit) - int(used))
    return {"total": total, "available": available}


def versions() -> dict[str, str | None]:
    """Versions of Python, of this package and of what the numbers depend on; the commit where there is one."""
    found: dict[str, str | None] = {"python": platform.python_version(), "saguaro": _version("saguaro-llm")}
    found |= {name: _version(name) for name in LIBRARIES}
    return {**found, "commit": _commit()}


def read_bandwidth(groups: list[list[int]] | None = None) -> list[float]:
    """Bytes per second that each core reads while all cores of its group read at once.

    Args:
        groups: system numbers of the cores, a list for each measurement; None measures the first allowed core alone.

    Returns:
        One rate a core, group after group: the best of `READ_WINDOWS` windows of a pinned process that streams
        `READ_BYTES` with numpy.
    """
    return [rate for group in (groups or [allowed_cores()[:1]]) for rate in _read_together(group)]


def read_alone_and_together() -> dict[str, list[float]]:
    """Bytes per second of the first allowed core alone, and of the first and the last at once."""
    cores = allowed_cores()
    together = read_bandwidth([[cores[0], cores[-1]]]) if len(cores) > 1 else []
    return {"alone": read_bandwidth([cores[:1]]), "together": together}


def _read_together(cores: list[int]) -> list[float]:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(cores))
    started = []
    try:
        for core in cores:
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_stream, args=(core, barrier, theirs, READ_BYTES, READ_SECONDS), daemon=True
            )
            process.start()
            theirs.close()
            started.append((process, ours))
        return [pipe.recv() for _, pipe in started]
    finally:
        for process, pipe in started:
            pipe.close()
            process.join(5)
            if process.is_alive():
                process.kill()


def _stream(core: int, barrier: Any, pipe: Connection, size: int, seconds: float) -> None:
    """Read memory on one core for a while and send the rate; runs in its own process."""
    import numpy

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [core])
    block = numpy.ones(size // 8, dtype=numpy.int64)
    numpy.bitwise_or.reduce(block)
    barrier.wait(60)
    rates = []
    for _ in range(READ_WINDOWS):
        begin, done = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            numpy.bitwise_or.reduce(block)
            done += block.nbytes
        rates.append(done / (time.perf_counter() - begin))
    pipe.send(max(rates))


def _cpu_info() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    found: dict[str, str] = {}
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def _last_level_cache() -> int | None:
    sizes = []
    for size in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        match = re.fullmatch(r"(\d+)([KM])", _read(size).strip())
        if match:
            sizes.append(int(match[1]) << {"K": 10, "M": 20}[match[2]])
    return max(sizes, default=None)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout that this file lies in, marked when files were changed; None outside a checkout."""
    folder = Path(__file__).resolve().parents[3]
    if not (folder / "pyproject.toml").is_file():
        return None
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
