"""Seconds of a pass by its number of rows: by a roofline over a data sheet, or by what a calibration measured.

A pass takes the longer of reading and computing, plus what each layer costs whatever its size (launches, small
kernels), plus two all-reduces a layer where the model is split over several devices:

    pass(n) = max(bytes / bandwidth, flops(n) / rate) / devices + layers * (layer + 2 * all_reduce(n))

Must not know: what a pass is for. Tests: tests/simulate/test_costs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from saguaro.errors import ConfigError
from saguaro.simulate.hardware import BANDWIDTH_SHARE, FLOPS_SHARE, Hardware
from saguaro.simulate.shapes import ModelShape
from saguaro.theory.step_times import time_for

Seconds = Callable[[int], float]
TOKEN_BYTES = 4


@dataclass(frozen=True)
class Costs:
    """Everything that takes time in a round.

    Args:
        verify, draft: seconds of a pass of target and draft by its rows, while the other does nothing.
        verify_beside, draft_beside: the same while both work; None where they do not disturb one another.
        link: seconds of a message between target and draft, one way.
        reply: seconds that the tokens and laws of one proposal of K tokens need on the link, by K.
        service: seconds of host work at each question to a draft that keeps the cache itself.
        branching: seconds that each step of the branches takes beside the pass itself (masks).
        handling: seconds of host work a round that nothing hides.
        draft_devices: devices that the branches are spread over.
    """

    verify: Seconds
    draft: Seconds
    verify_beside: Seconds | None = None
    draft_beside: Seconds | None = None
    link: float = 0.0
    reply: Seconds | None = None
    service: float = 0.0
    branching: float = 0.0
    handling: float = 0.0
    draft_devices: int = 1

    def verify_while(self, rows: int, *, both: bool) -> float:
        """A verification, alone or beside a working draft."""
        return (self.verify_beside or self.verify)(rows) if both else self.verify(rows)

    def draft_while(self, rows: int, *, both: bool) -> float:
        """A pass of the draft, its rows spread over its devices, alone or beside a working target."""
        each = -(-rows // self.draft_devices)
        return (self.draft_beside or self.draft if both else self.draft)(max(1, each))

    def step(self, branches: int) -> float:
        """One step of all branches, while the target works."""
        return self.draft_while(branches, both=True) + self.branching

    def extend(self, rows: int) -> float:
        """The pass that ranks outcomes, while the target works; one row for each request."""
        return self.draft_while(rows, both=True)


def roofline(
    shape: ModelShape,
    hardware: Hardware,
    *,
    devices: int = 1,
    weight_bytes: float = 2.0,
    sequences: int = 1,
    context: float = 0.0,
    layer: float | None = None,
    share: float = 1.0,
) -> Seconds:
    """Seconds of a pass by its rows.

    Args:
        shape: of the model.
        hardware: of each device.
        devices: over which each layer is split.
        weight_bytes: of a weight.
        sequences: whose keys and values are read.
        context: tokens that each of them has on average.
        layer: seconds of launches in each layer; None takes the hardware's.
        share: of the bandwidth that this model gets.
    """
    read = shape.read * weight_bytes + sequences * context * shape.kv_bytes_per_token()
    reading = read / (devices * hardware.bandwidth * BANDWIDTH_SHARE * share)
    fixed = shape.layers * (hardware.layer if layer is None else layer)
    computing = shape.flops_per_token / (devices * hardware.flops * FLOPS_SHARE)
    wires = 2 * shape.layers * 2 * (devices - 1) / devices * shape.hidden * 2.0 / hardware.link
    reduces = 2 * shape.layers * hardware.all_reduce if devices > 1 else 0.0

    @cache
    def seconds(rows: int) -> float:
        return max(reading, rows * computing) + fixed + reduces + (rows * wires if devices > 1 else 0.0)

    return seconds


def memory_shares(hardware: Hardware, *, devices: int) -> float:
    """The share of its own bandwidth that each of `devices` busy devices gets where they share one memory."""
    if not hardware.together or devices < 2:
        return 1.0
    return min(1.0, hardware.together / (devices * hardware.bandwidth))


def laws_reply(vocab: int, hardware: Hardware, *, batch: int = 1, value_bytes: float = 2.0) -> Seconds:
    """Seconds that the laws of a proposal need on the link, by its number of tokens (Appendix C: B K V numbers)."""

    def seconds(depth: int) -> float:
        return batch * depth * (vocab * value_bytes + TOKEN_BYTES) / hardware.link

    return seconds


def measured(
    times: Mapping[str, Mapping[int, float]], *, link: float = 2e-4, handling: float = 0.0, between: float = 0.0
) -> Costs:
    """The costs of a calibration profile (`Profile.times`): verifications and draft steps, alone and together.

    Args:
        times: `verify_alone`, `step_alone`, `verify_together`, `step_together`: seconds by rows.
        link: hand-over between the two processes, one way.
        handling: host work a round.
        between: host work of each pass of the draft: what is chosen before it and written after it.

    Raises:
        ConfigError: when one of them is missing.
    """
    missing = [name for name in ("verify_alone", "step_alone") if not times.get(name)]
    if missing:
        raise ConfigError(f"the profile lacks the times {' and '.join(missing)}; run `saguaro calibrate` again.")

    def of(name: str, otherwise: str, more: float = 0.0) -> Seconds:
        known = times.get(name) or times[otherwise]
        return lambda rows: time_for(known, rows) + more

    return Costs(
        verify=of("verify_alone", "verify_alone"),
        draft=of("step_alone", "step_alone", between),
        verify_beside=of("verify_together", "verify_alone"),
        draft_beside=of("step_together", "step_alone", between),
        link=link,
        handling=handling,
    )
