"""The numbers of Figures 3, 4, 6 and 7: as published, and simulated with costs fitted to AR and SD alone.

A figure is a list of panels, a panel a list of lines; the same values go into the picture and into the JSON beside it.
Must not know: how a line is drawn. Tests: tests/figures/test_series.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from saguaro.algorithm.fan_out import open_fan_out
from saguaro.figures.saguaro_c import trade_off
from saguaro.simulate.clock import Setting, Simulated, simulate
from saguaro.simulate.drafting import ASK
from saguaro.simulate.paper import Fitted, acceptance_for, fit, pair_at, ssd_of
from saguaro.simulate.published import (
    BATCHES,
    COMMITTED_FAN_OUT,
    COMMITTED_LOOKAHEAD,
    FAN_OUTS,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_6_DEVICES,
    FIGURE_7,
    LLAMA,
    MISSES_BACKUP,
    MISSES_PRIMARY,
    SETS,
)
from saguaro.theory.branches import hit_rate
from saguaro.theory.speedup import long_run_hit_rate

K, F = COMMITTED_LOOKAHEAD, COMMITTED_FAN_OUT
GPUS = {"ar": 4, "sd": 4, "ssd": 5}
PAPER_NOTE = "hollow: read off the paper's figures; lines: simulated"


@dataclass(frozen=True)
class Line:
    """Points with a name. `hollow` ones were read or measured and have no line; `low` and `high` are the ends of their
    bars, and `notes` stand beside them, where there are any.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    hollow: bool
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `doubling` has x alone in powers of two. `ticks` name whole numbers of x; y begins at zero
    unless it is logarithmic or not to.
    """

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    logarithmic: bool = False
    doubling: bool = False
    ticks: tuple[str, ...] = ()
    from_zero: bool = True


@dataclass(frozen=True)
class Figure:
    """One figure: its name, what it shows, its panels, and what its marks mean."""

    name: str
    message: str
    panels: tuple[Panel, ...]
    note: str = PAPER_NOTE

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def every(*, rounds: int = 6000) -> list[Figure]:
    """Figures 3 to 7 for Llama-3.1-70B with 3.2-1B; `rounds` of each simulated point."""
    fitted = fit(LLAMA)
    makers: Sequence[Callable[[Fitted, int], Figure]] = (figure_3, figure_4, figure_5, figure_6, figure_7)
    return [make(fitted, rounds) for make in makers]


def figure_3(fitted: Fitted, rounds: int) -> Figure:
    """Misses against fan-out; no clock runs here, the law is evaluated."""
    primary, backup, overall = [], [], []
    sizes = tuple(float(size) for size in FAN_OUTS)
    for temperature, misses in MISSES_PRIMARY.items():
        name = f"T = {temperature:g}"
        pair = pair_at(temperature, fitted.mean_acceptance, lookahead=K)
        other = MISSES_BACKUP[temperature]
        small = [size for size in FAN_OUTS if size < 64]  # curves of evidence end there
        own = [hit_rate(pair.evidence("hit"), (size,) * (K + 1)) for size in small]
        after = [hit_rate(pair.evidence("random"), (size,)) for size in small]
        both = [long_run_hit_rate(after_hit=p, after_miss=b) for p, b in zip(own, after, strict=True)]
        known = [long_run_hit_rate(after_hit=1 - p, after_miss=1 - b) for p, b in zip(misses, other, strict=True)]
        places = tuple(float(size) for size in small)
        primary += [Line(name, sizes, misses, True), Line(f"{name}, fitted", places, tuple(1 - p for p in own), False)]
        backup += [Line(name, sizes, other, True), Line(f"{name}, fitted", places, tuple(1 - b for b in after), False)]
        overall += [Line(name, sizes, tuple(known), True), Line(f"{name}, fitted", places, tuple(both), False)]
    axis = "guesses a position, F"
    return Figure(
        "figure-3",
        "Misses fall with the fan-out as c F^-r",
        (
            Panel("after the primary", axis, "miss rate", tuple(primary), logarithmic=True),
            Panel("after the backup", axis, "miss rate", tuple(backup), logarithmic=True),
            Panel("in the long run", axis, "hit rate", tuple(overall), doubling=True),
        ),
    )


def figure_4(fitted: Fitted, rounds: int) -> Figure:
    """Geometric against uniform fan-out by temperature, with random tokens after a miss and one list."""
    runs: dict[str, list[Simulated]] = {"uniform": [], "geometric": []}
    temperatures = tuple(t for t in FIGURE_4 if t in MISSES_PRIMARY)
    for temperature in temperatures:
        acceptance = acceptance_for(fitted.tokens_of_sd(FIGURE_4[temperature].sd), fitted.sd_lookahead)
        pair = pair_at(temperature, acceptance, lookahead=K)
        own = open_fan_out("geometric").counts(K, F * (K + 1), pair.evidence("hit"), after_hit=True)
        for name, policy in (("uniform", "uniform"), ("geometric", own)):
            setting = Setting("ssd", K, F * (K + 1), policy, "random", ASK)
            runs[name].append(simulate(setting, fitted.costs(), pair, rounds=2 * rounds, seed=1))
    all_, known = tuple(FIGURE_4), FIGURE_4.values()
    speeds = (
        Line("SD, paper", all_, tuple(each.sd for each in known), True),
        Line("uniform, paper", all_, tuple(each.uniform for each in known), True),
        Line("geometric, paper", all_, tuple(each.geometric for each in known), True),
        *(Line(name, temperatures, tuple(r.tokens_per_second for r in found), False) for name, found in runs.items()),
    )
    hits = (
        Line("uniform, paper", all_, tuple(each.hit_uniform for each in known), True),
        Line("geometric, paper", all_, tuple(each.hit_geometric for each in known), True),
        *(Line(name, temperatures, tuple(r.hit_rate or 0.0 for r in found), False) for name, found in runs.items()),
    )
    return Figure(
        "figure-4",
        "Geometric fan-out gains at high temperature",
        (Panel("speed", "temperature", "tokens/s", speeds), Panel("hits", "temperature", "hit rate", hits)),
    )


def figure_5(fitted: Fitted, rounds: int) -> Figure:
    """Acceptance against hits as C falls."""
    hits, accepted = zip(*trade_off(), strict=True)
    published = list(zip(*FIGURE_5, strict=True))
    lines = (
        Line("paper", tuple(published[0]), tuple(published[1]), True),
        Line("made-up laws, C = 1 ... .05", hits, accepted, False),
    )
    return Figure(
        "figure-5",
        "Saguaro sampling trades acceptance for hits",
        (Panel("", "bonus tokens predicted after a rejection (share)", "acceptance", lines),),
    )


def figure_6(fitted: Fitted, rounds: int) -> Figure:
    """Fallbacks by batch, and draft devices at batch 16."""

    def run(batch: int, fallback: str, guesses: int = 1, devices: int = 1) -> float:
        costs = fitted.costs(batch=batch, draft_devices=devices)
        found = ssd_of(
            fitted, fitted.mean_acceptance, lookahead=K, fan_out=guesses, fallback=fallback, batch=batch,
            rounds=max(200, rounds // batch), costs=costs,
        )  # fmt: skip
        return found.tokens_per_second / batch

    places = tuple(float(batch) for batch in BATCHES)
    lines = [Line(f"{name}, paper", places, FIGURE_6[name], True) for name in ("fast", "neural", "sd")]
    for name, fallback in (("fast", "random"), ("neural", "neural")):
        lines.append(Line(f"{name}, F = 1", places, tuple(run(batch, fallback) for batch in BATCHES), False))
    devices = tuple(float(count) for count in FIGURE_6_DEVICES)
    right = (
        Line("paper (projected)", devices, tuple(FIGURE_6_DEVICES.values()), True),
        Line("simulated", devices, tuple(run(16, "random", count, count) for count in FIGURE_6_DEVICES), False),
    )
    return Figure(
        "figure-6",
        "A fast fallback wins from a small batch on; more draft devices help a large one",
        (
            Panel("fallbacks", "batch", "tokens/s of a sequence", tuple(lines), doubling=True),
            Panel("batch 16, fast fallback", "draft devices", "tokens/s of a sequence", right, doubling=True),
        ),
    )


def figure_7(fitted: Fitted, rounds: int) -> Figure:
    """Speed by prompt set, and the throughput-latency frontier."""
    places = tuple(float(place) for place in range(len(SETS)))
    found = tuple(
        ssd_of(fitted, fitted.acceptance[name], lookahead=K, fan_out=F, rounds=rounds).tokens_per_second
        for name in SETS
    )
    left = (
        Line("AR, paper", places, (LLAMA.ar,) * len(SETS), True),
        Line("SD, paper", places, tuple(LLAMA.sd[name] for name in SETS), True),
        Line("SSD, paper", places, tuple(LLAMA.ssd[name] for name in SETS), True),
        Line("SSD, predicted", places, found, False),
    )
    right = []
    for mode, points in FIGURE_7.items():
        x, y = zip(*points, strict=True)
        right.append(Line(f"{mode.upper()}, paper", x, y, True))
    speeds = {mode: [_frontier(fitted, mode, batch, rounds) for batch in BATCHES] for mode in GPUS}
    for mode, own in speeds.items():
        each_gpu = tuple(speed * batch / GPUS[mode] for speed, batch in zip(own, BATCHES, strict=True))
        right.append(Line(f"{mode.upper()}, simulated", tuple(own), each_gpu, False))
    return Figure(
        "figure-7",
        "SSD is faster on every set, and on the frontier at small batches",
        (
            Panel("batch 1", "", "tokens/s", left, ticks=SETS),
            Panel("batch 1, 2, 4, 8, 16", "tokens/s of a sequence", "tokens/s of a GPU", tuple(right)),
        ),
    )


def _frontier(fitted: Fitted, mode: str, batch: int, rounds: int) -> float:
    """Tokens a second of a sequence; SSD with the better of both fallbacks, and F = 1 from batch 2 on."""
    costs, pair = fitted.costs(batch=batch), pair_at(0.0, fitted.mean_acceptance, lookahead=K)
    count = max(200, rounds // batch)
    if mode == "ar":
        return 1 / costs.verify(batch)
    if mode == "sd":
        setting = Setting("sd", fitted.sd_lookahead, handover=ASK, batch=batch)
        return simulate(setting, costs, pair, rounds=count, seed=1).tokens_per_second / batch
    guesses = F if batch == 1 else 1
    return max(
        ssd_of(
            fitted, fitted.mean_acceptance, lookahead=K, fan_out=guesses, fallback=fallback, batch=batch, rounds=count,
            costs=costs,
        ).tokens_per_second
        for fallback in ("neural", "random")
    ) / batch  # fmt: skip
