"""Where a model runs: device strings, and pinning a process to its cores (DESIGN D10).

`cpu:0` is the first core that this process may use, `cpu:0-1` the first two, `cpu` all of them. A comma-separated list
is a tensor-parallel group. Must not know: models, torch. Tests: tests/device/.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from saguaro.errors import ConfigError


@dataclass(frozen=True)
class Device:
    """A resolved device. `cores` are operating-system core numbers; `text` is the string it was parsed from."""

    kind: str
    cores: tuple[int, ...]
    text: str

    @property
    def threads(self) -> int:
        """Compute threads: one a core."""
        return len(self.cores)


def allowed_cores() -> list[int]:
    """The cores that this process may use, in increasing order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def parse_device(text: str) -> Device:
    """Resolve a device string against this machine.

    Raises:
        ConfigError: when the string is malformed, names a core that does not exist, or a kind that is not built yet.
    """
    if "," in text:
        raise ConfigError(f"device {text!r} is a tensor-parallel group, which is not built yet; name one device.")
    if re.fullmatch(r"cuda(:\d+)?", text):
        raise ConfigError(f"device {text!r} is not built yet; use 'cpu:0' or 'cpu:0-1'.")
    match = re.fullmatch(r"cpu(?::(\d+)(?:-(\d+))?)?", text)
    if match is None:
        raise ConfigError(f"device {text!r} is not understood; write 'cpu:0' for one core or 'cpu:0-1' for a range.")
    cores = allowed_cores()
    if match.group(1) is None:
        return Device("cpu", tuple(cores), text)
    first = int(match.group(1))
    last = int(match.group(2)) if match.group(2) is not None else first
    if last < first:
        raise ConfigError(f"device {text!r} names an empty range of cores; write the smaller number first.")
    if last >= len(cores):
        raise ConfigError(
            f"device {text!r} does not exist: this process may use {len(cores)} core(s), numbered from 0."
        )
    return Device("cpu", tuple(cores[first : last + 1]), text)


def default_devices(mode: str) -> tuple[str, str]:
    """Devices of target and draft for `auto`: a core each for `ssd`, everything for the target otherwise.

    The paper's placement keeps the draft on a device of its own; with a single core both share it.
    """
    count = len(allowed_cores())
    if mode != "ssd":
        return "cpu", "cpu"
    if count == 1:
        return "cpu:0", "cpu:0"
    last = count - 1
    target = "cpu:0" if last == 1 else f"cpu:0-{last - 1}"
    return target, f"cpu:{last}"


def device_without(cores: tuple[int, ...]) -> str | None:
    """The longest run of neighbouring cores beside those, as a device string; None when there is none."""
    allowed = allowed_cores()
    best: list[int] = []
    run: list[int] = []
    for number, core in enumerate(allowed):
        run = [] if core in cores else [*run, number]
        best = max(best, run, key=len)
    if not best:
        return None
    return f"cpu:{best[0]}" if len(best) == 1 else f"cpu:{best[0]}-{best[-1]}"
