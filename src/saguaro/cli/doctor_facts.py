"""The facts that `saguaro doctor` reports, each with its formula or source.

Must not know: how they are shown. Tests: tests/cli/test_doctor.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from saguaro.bench import machine as this
from saguaro.bench.sizes import WEIGHT_BYTES, Sizes, sizes
from saguaro.cli.fetch import is_here
from saguaro.cli.model_sets import SETS, directory
from saguaro.cli.options import folders
from saguaro.errors import SaguaroError

if TYPE_CHECKING:
    from saguaro.engine.resolve import Placement, Plan

PROCESS_BYTES = 400 << 20  # an interpreter with torch
GB = 1e9


@dataclass(frozen=True)
class Fact:
    """One thing that is known, and how."""

    name: str
    value: Any
    unit: str
    source: str

    @property
    def shown(self) -> str:
        """The value for people."""
        if isinstance(self.value, list):
            return ", ".join(map(str, self.value)) or "none"
        if isinstance(self.value, float):
            return f"{self.value:.1f}"
        return "unknown" if self.value is None else str(self.value)


def machine_facts(*, measure: bool) -> Iterator[Fact]:
    """Cores, instruction sets, memory, and the speed at which cores read it."""
    facts, memory = this.machine(), this.memory()
    yield Fact("processor", facts["cpu"], "", "/proc/cpuinfo")
    yield Fact("cores", facts["cores"], "", "cores that this process may use")
    yield Fact("instruction sets", facts["flags"], "", "/proc/cpuinfo, those that matter here")
    cache = facts["last_level_cache"]
    yield Fact("last-level cache", cache and cache / (1 << 20), "MiB", "/sys/devices/system/cpu")
    yield Fact("memory", memory["total"] / GB, "GB", "/proc/meminfo and the control group's limit")
    yield Fact("memory available", memory["available"] / GB, "GB", "the same, now")
    if measure:
        yield from bandwidth_facts()


def bandwidth_facts() -> Iterator[Fact]:
    """Measured now: a pinned process a core that streams 512 MiB."""
    how = "measured: streaming 512 MiB, a pinned process a core, best of four windows"
    rates = this.read_alone_and_together()
    yield Fact("one core reads", rates["alone"][0] / GB, "GB/s", how)
    if rates["together"]:
        yield Fact("two cores at once", [f"{rate / GB:.1f}" for rate in rates["together"]], "GB/s each", how)


def kernel_facts() -> Iterator[Fact]:
    """The C compiler and whether the CPU kernels load (compiling them when that was not done yet)."""
    from saguaro import native

    try:
        compiler = native.find_compiler()
        yield Fact("C compiler", " ".join(compiler.command), "", "CC, then cc, gcc, clang, then the ziglang package")
        features = native.cpu_features()
        yield Fact("native kernels", [name for name, present in features.items() if present], "", "the loaded library")
    except SaguaroError as error:
        yield Fact("native kernels", f"not available: {error}", "", "tried to compile and load them")


def model_facts() -> Iterator[Fact]:
    """Named models on this machine, and room for those that are not."""
    folder = directory()
    for model in SETS["all"]:
        here = is_here(model, folder)
        state = "here" if here else f"not here; saguaro pull brings {model.size / 1e6:.0f} MB"
        yield Fact(model.title, state, "", str(folder / model.name))
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    yield Fact("disk free", shutil.disk_usage(nearest).free / GB, "GB", str(folder))


def version_facts() -> Iterator[Fact]:
    """What is installed."""
    for name, version in this.versions().items():
        yield Fact(name, version or "not installed", "", "package metadata" if name != "commit" else "git")


def plan_facts(plan: Plan, *, bandwidth: float | None) -> Iterator[Fact]:
    """What would run where, and what it takes."""
    summary = plan.summary()
    for name in ("mode", "target_device", "draft_device", "dtype", "draft_dtype", "lookahead", "budget", "fan_out"):
        value = summary[name]
        if value is None and name in ("lookahead", "budget"):
            value = "measured at start"
        if value is not None:
            yield Fact(
                name.replace("_", " "), value, "", "option" if _was_given(plan, name) else "default for this machine"
            )
    yield Fact("mode and devices", plan.why, "", "how they were chosen")
    if plan.gears:
        yield Fact("gears", list(plan.gears), "", "what the engine changes to while it runs, as it pays")
    yield Fact("context", plan.max_model_len, "tokens", "max_model_len, at most the model's own")
    for role, placement in (("target", plan.target), ("draft", plan.draft)):
        if placement is not None:
            yield from placement_facts(role, placement, page_size=plan.config.page_size, bandwidth=bandwidth)
    needed = memory_needed(plan)
    yield Fact("memory needed", needed / GB, "GB", f"weights, keys and values, and {PROCESS_BYTES >> 20} MiB a process")
    yield Fact("fits", fits(plan), "", "memory needed <= memory available")


def placement_facts(role: str, placement: Placement, *, page_size: int, bandwidth: float | None) -> Iterator[Fact]:
    """Sizes of one model in its place."""
    size, each = _sizes(placement), WEIGHT_BYTES[placement.dtype]
    read = f"{size.streamed:,} weights × {each:g} bytes ({placement.dtype})"
    yield Fact(f"{role} weights read a pass", size.streamed_bytes / GB, "GB", read)
    yield Fact(f"{role} embedding", size.table_bytes / GB, "GB", f"{size.table:,} values, few read a pass")
    slots = placement.num_pages * page_size
    kept = f"{slots:,} slots × {size.slot_bytes:,} bytes (2 × layers × key heads × head size × bytes)"
    yield Fact(f"{role} keys and values", slots * size.slot_bytes / GB, "GB", kept)
    if bandwidth is not None:
        rate = bandwidth / size.streamed_bytes
        yield Fact(f"{role} tokens/s alone, at most", rate, "", "one core's read speed / weights read a pass")


def memory_needed(plan: Plan) -> int:
    """Bytes of weights, embedding, keys and values of both models, and of the processes."""
    placements = [placement for placement in (plan.target, plan.draft) if placement is not None]
    total = (1 + len(placements)) * PROCESS_BYTES
    for placement in placements:
        size = _sizes(placement)
        slots = placement.num_pages * plan.config.page_size
        total += size.streamed_bytes + size.table_bytes + slots * size.slot_bytes
    return total


def fits(plan: Plan) -> bool:
    """Whether the memory that is available now is enough."""
    return memory_needed(plan) <= this.memory()["available"]


def _sizes(placement: Placement) -> Sizes:
    return sizes(placement.source, placement.dtype, hub_cache=folders().get("hub_cache"))


def _was_given(plan: Plan, name: str) -> bool:
    default = next(field.default for field in fields(plan.config) if field.name == name)
    return getattr(plan.config, name) != default
