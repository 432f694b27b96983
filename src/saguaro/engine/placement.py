"""Where two models run when nobody says it: everything on all cores, or a device for each; the memory of the choice.

Both placements are opened in turn at the first start, their passes are measured as at every start, and the one that
promises more tokens a second is kept. The choice is written down in the folder of packed weights, for the same models
on the same cores, so that later starts are immediate. Must not know: torch, channels, how an engine is opened.
Tests: tests/engine/test_placement.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from saguaro.config import EngineConfig
from saguaro.device import allowed_cores, default_devices, device_without, parse_device
from saguaro.theory.evidence import ASSUMED_ACCEPTANCE, ASSUMED_HIT_RATE
from saguaro.theory.rates import StepTimes, promise

MEMORY = "placements.json"
VERSION = 1
"""Part of the key: a change of what is measured or promised makes old choices void."""
BUSY_SHARE = 0.6
CLOSE = 1.05
"""Placements whose promises for one request differ by less are compared by what they promise for a full batch."""


@dataclass(frozen=True)
class Promised:
    """What a placement promises: the best gear and tokens a second, for one row and for a full batch."""

    gear: str
    rate: float
    full_rate: float


def promised(times: StepTimes, gears: Sequence[str], *, max_batch: int, acceptance: Sequence[float] = ()) -> Promised:
    """The best of the gears by measured step times; acceptance where it is not known, and hit rate, are priors."""
    rates = [*acceptance[:8], *[ASSUMED_ACCEPTANCE] * (8 - len(acceptance))]

    def of(gear: str, rows: int) -> float:
        return promise(gear, times, rates, ASSUMED_HIT_RATE, rows=rows).rate

    best = max(gears, key=lambda gear: of(gear, 1))
    return Promised(best, of(best, 1), max(of(gear, max_batch) for gear in gears))


def better(first: Promised, second: Promised) -> bool:
    """Whether the second placement is to be preferred."""
    if max(first.rate, second.rate) < CLOSE * min(first.rate, second.rate):
        return second.full_rate > first.full_rate
    return second.rate > first.rate


def key_of(parts: Sequence[Any]) -> str:
    """A key for everything that the choice depends on."""
    text = json.dumps([VERSION, *parts], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def recall(folder: str | None, key: str) -> Mapping[str, str] | None:
    """What was chosen for a key: `target_device`, `draft_device` and `why`. A damaged file is no file."""
    if folder is None:
        return None
    found = _read(Path(folder) / MEMORY).get(key)
    wanted = {"target_device", "draft_device", "why"}
    if not isinstance(found, dict) or not wanted <= set(found) or any(not isinstance(found[w], str) for w in wanted):
        return None
    return found


def busy() -> bool:
    """Whether others use this machine so much that times measured now say little about other days."""
    return os.getloadavg()[0] > BUSY_SHARE * len(allowed_cores())


def remember(folder: str | None, key: str, target_device: str, draft_device: str, why: str) -> None:
    """Write a choice down; a folder that cannot be written to forgets."""
    if folder is None:
        return
    path = Path(folder) / MEMORY
    known = _read(path)
    known[key] = {"target_device": target_device, "draft_device": draft_device, "why": why}
    staging = path.with_name(f"{MEMORY}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging.write_text(json.dumps(known, indent=1), encoding="utf-8")
        staging.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            staging.unlink()


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


# -- which placements there are ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spot:
    """One way to run: the mode of the engine, its devices, the gears that it may change to, and why."""

    mode: str
    target_device: str
    draft_device: str
    gears: tuple[str, ...]
    why: str


def spots(config: EngineConfig, *, models: Callable[[], Sequence[str]], folder: str | None) -> tuple[list[Spot], str]:
    """The placements to choose among, the paper's first, and the key by which the choice is remembered (`remember`).

    One placement where the user, the machine or an earlier trial leaves no choice.

    Args:
        config: what the user asked.
        models: gives fingerprints and kinds of the models; files are read for it.
        folder: where choices are remembered.
    """
    cores = allowed_cores()
    if config.mode != "auto" or config.draft is None:
        return [_asked(config)], ""
    if config.channel == "loopback":
        target, draft = _given(config, *default_devices("ssd"))
        return [Spot("ssd", target, draft, _gears("ssd"), "auto: everything in one process, so nothing is tried")], ""
    if config.target_device != "auto" or config.draft_device != "auto":
        return [_on_given(config)], ""
    if len(cores) == 1:
        return [Spot("sd", "cpu:0", "cpu:0", _gears("sd"), "auto: one core for both models")], ""
    target, draft = default_devices("ssd")
    split = Spot("ssd", target, draft, _gears("ssd"), "auto: a device for each model")
    if not _measurable(config.target):
        return [replace(split, why="auto: a device for each model; toy models are not measured")], ""
    every = f"cpu:0-{len(cores) - 1}"
    whole = Spot("sd", every, every, _gears("sd"), f"auto: both models on {every}")
    key = key_of([*models(), cores, config.max_batch, config.drafter, config.drafter_options])
    known = recall(folder, key)
    if known is None:
        both = [
            replace(spot, why=f"{spot.why}; both placements are tried at the first start") for spot in (split, whole)
        ]
        return both, key
    chosen = whole if known["target_device"] == every else split
    return [replace(chosen, why=known["why"])], key


def _measurable(target: str) -> bool:
    """Toy models take less time than a message, so that times say nothing; a part of a real model does not."""
    return not target.startswith("toy:") or target.startswith("toy:truncate")


def _gears(mode: str) -> tuple[str, ...]:
    return {"ar": (), "sd": ("ar", "sd"), "ssd": ("ar", "sd", "ssd")}[mode]


def _given(config: EngineConfig, target: str, draft: str) -> tuple[str, str]:
    return (
        target if config.target_device == "auto" else config.target_device,
        draft if config.draft_device == "auto" else config.draft_device,
    )


def _apart(config: EngineConfig, target: str, draft: str) -> tuple[str, str]:
    """Where the user named one device, the other model gets cores beside it if there are any."""
    if config.target_device == "auto" != config.draft_device:
        target = device_without(parse_device(draft).cores) or target
    taken = parse_device(target).cores
    if config.draft_device == "auto" != config.target_device and set(taken) & set(parse_device(draft).cores):
        draft = device_without(taken) or draft
    return target, draft


def _asked(config: EngineConfig) -> Spot:
    """The mode that the user named, or the only one without a draft."""
    mode, why = config.mode, "asked for"
    if mode == "auto":
        mode, why = "ar", "auto: there is no draft"
    target, draft = _given(config, *default_devices(mode))
    if mode == "ssd":
        target, draft = _apart(config, target, draft)
    return Spot(mode, target, draft if mode == "ssd" else target, (), why)


def _on_given(config: EngineConfig) -> Spot:
    """`auto` on devices of which the user named one or both."""
    target, draft = _apart(config, *_given(config, *default_devices("ssd")))
    if set(parse_device(target).cores) & set(parse_device(draft).cores):
        return Spot("sd", target, target, _gears("sd"), f"auto: both models on {target}, which they would share")
    return Spot("ssd", target, draft, _gears("ssd"), f"auto: target on {target}, draft on {draft}, as given")
