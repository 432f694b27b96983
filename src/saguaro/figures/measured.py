"""Figures 3 to 7 of the paper from records of this engine, as far as the records hold what they show.

Each figure names the records that it is made of and nothing else is used; one whose records are not there is not drawn,
and the caller is told which command writes them. Must not know: how a line is drawn, how a record is made.
Tests: tests/figures/test_measured.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from saguaro.errors import ConfigError
from saguaro.figures.series import Figure, Line, Panel
from saguaro.records import read_record, summarise
from saguaro.theory.fit import fit_power_law
from saguaro.theory.speedup import long_run_hit_rate

SHOWN = (1, 2, 4, 8, 16)
"""Guesses of a hit curve that are marked."""
POLICIES = ("uniform", "geometric", "ranked")
BUDGET = 8
FALLBACKS = ("none", "random", "ngram", "own_row", "neural", "adaptive")
GUESSES = 3
"""Of Figure 5."""
DEVICES = {"AR": 1, "SD": 1, "SSD, adaptive": 2, "auto": 2}
SETS = ("humaneval", "gsm8k_test", "mt_bench")
MODES = ("AR", "SD", "SSD")
Records = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """How a figure is made: the records that it needs, what writes them, the maker, and records that are `welcome`."""

    name: str
    records: tuple[str, ...]
    command: str
    make: Callable[[Records], Figure]
    welcome: tuple[str, ...] = ()


def measured(folder: Path) -> tuple[list[Figure], list[str]]:
    """The figures that the records of a folder allow, and a sentence for each that they do not."""
    found, missing = [], []
    for recipe in RECIPES:
        absent = [name for name in recipe.records if not (folder / f"{name}.json").exists()]
        if absent:
            missing.append(f"{recipe.name} needs the record {' and '.join(absent)}; {recipe.command} writes it.")
            continue
        there = [name for name in (*recipe.records, *recipe.welcome) if (folder / f"{name}.json").exists()]
        found.append(recipe.make({name: read_record(folder / f"{name}.json") for name in there}))
    return found, missing


def _note(records: Records) -> str:
    """Which models, and which machine."""
    for record in records.values():
        if record.get("note"):
            models = record["note"].split(";")[0].replace(".gguf", "")
            return f"measured: {models}; {record['machine']['cpu']}, {record['machine']['cores']} cores"
    return "measured"


# -- Figure 3 ---------------------------------------------------------------------------------------------------------


def figure_3(records: Records) -> Figure:
    """Misses by guesses a position, after a drafted proposal and after none, and hits in the long run."""
    primary: list[Line] = []
    backup: list[Line] = []
    overall: list[Line] = []
    for each in records["curves"]["temperatures"]:
        name = f"T = {each['temperature']:g}"
        rejected, whole, nothing = (each["curves"][kind] for kind in ("after_rejection", "after_all", "after_miss"))
        sizes = [size for size in SHOWN if size < min(len(one["hits"]) for one in (rejected, whole, nothing))]
        rounds = rejected["rounds"] + whole["rounds"]
        own = [sum(one["rounds"] * (1 - one["hits"][size]) for one in (rejected, whole)) / rounds for size in sizes]
        after = [1 - nothing["hits"][size] for size in sizes]
        primary += _points_and_law(name, sizes, own, rounds)
        backup += _points_and_law(name, sizes, after, nothing["rounds"])
        both = [long_run_hit_rate(after_hit=1 - p, after_miss=1 - b) for p, b in zip(own, after, strict=True)]
        overall.append(Line(name, tuple(map(float, sizes)), tuple(both), False))
    axis = "guesses a position, F"
    return Figure(
        "measured-3",
        "Misses by the number of guesses",
        (
            Panel("after the draft's proposal", axis, "miss rate", tuple(primary), logarithmic=True),
            Panel("after a round without one", axis, "miss rate", tuple(backup), logarithmic=True),
            Panel("in the long run, misses unanswered", axis, "hit rate", tuple(overall), doubling=True),
        ),
        _note(records) + "; hollow: measured, lines: c F^-r fitted; right: Theorem 7's two hit rates",
    )


def _points_and_law(name: str, sizes: Sequence[int], misses: Sequence[float], rounds: int) -> list[Line]:
    """Shares as they were seen, and the power law that makes them likeliest, where enough was missed for one."""
    places = tuple(map(float, sizes))
    points = Line(name, places, tuple(misses), True)
    try:
        law = fit_power_law([round(share * rounds) for share in misses], trials=[rounds] * len(sizes), fan_outs=sizes)
    except ConfigError:
        return [points]
    fitted = tuple(law.miss(size) for size in sizes)
    return [points, Line(f"{name}, {law.c:.2f} F^-{law.r:.2f}", places, fitted, False)]


# -- Figure 4 ---------------------------------------------------------------------------------------------------------


def figure_4(records: Records) -> Figure:
    """Fan-out policies: hits by temperature in lockstep, and speed."""
    rows = [row for row in records["ablation"]["rows"] if (row["prompts"], row["budget"]) == ("all", BUDGET)]
    places = tuple(row["temperature"] for row in rows)
    hits = tuple(Line(name, places, tuple(row["hit_rate"][name] for row in rows), False) for name in POLICIES)
    speeds = [row for row in records["policies"]["summary"] if row["lane"] in (*POLICIES, "none")]
    speeds.sort(key=lambda row: row["total_tokens_per_second"])
    return Figure(
        "measured-4",
        "Fan-out policies: a spread over positions against the likeliest outcomes",
        (
            Panel(f"B = {BUDGET}, in lockstep", "temperature", "hit rate", hits, from_zero=False),
            Panel(
                "in real time, temperature 0", "fan-out policy", "tokens/s",
                (_speeds("median", [(place, row) for place, row in enumerate(speeds)]),),
                ticks=tuple(row["lane"] for row in speeds),
            ),
        ),
        _note(records) + "; bars: lowest and highest run",
    )  # fmt: skip


def _speeds(name: str, rows: Sequence[tuple[int, Mapping[str, Any]]], speed: str = "total_tokens_per_second") -> Line:
    """Speeds at places of an axis, with their ranges."""
    return Line(
        name, tuple(float(place) for place, _ in rows), tuple(row[speed] for _, row in rows), True,
        tuple(row["low"] for _, row in rows), tuple(row["high"] for _, row in rows),
    )  # fmt: skip


# -- Figure 5 ---------------------------------------------------------------------------------------------------------


def figure_5(records: Records) -> Figure:
    """Acceptance against foreseen bonus tokens as C falls, by exact sums over both models' laws."""
    lines: list[Line] = []
    for temperature, each in records["curves"]["laws"].items():
        own = sorted((row for row in each["rows"] if row[1] == GUESSES), reverse=True)
        hits, accepted = tuple(row[3] for row in own), tuple(row[2] for row in own)
        name = f"T = {temperature}"
        lines.append(Line(f"{name}, rejection", hits, accepted, False, notes=tuple(f"{row[0]:g}" for row in own)))
        shared = each["shared_noise"]
        place = each["fan_outs"].index(GUESSES)
        lines.append(Line(f"{name}, shared noise", (shared["after_rejection"][place],), (shared["acceptance"],), True))
    return Figure(
        "measured-5",
        "Acceptance against hits: Saguaro sampling as C falls, and shared noise",
        (
            Panel(
                f"F = {GUESSES}, C beside the points", "bonus tokens predicted after a rejection (share)",
                "acceptance", tuple(lines), from_zero=False,
            ),
        ),
        _note(records) + "; exact over recorded positions",
    )  # fmt: skip


# -- Figure 6 ---------------------------------------------------------------------------------------------------------


def figure_6(records: Records) -> Figure:
    """Fallbacks by batch: speed of a sequence, and gain over SD."""
    rows = records["fallbacks"]["summary"]
    names = {"AR": "AR", "SD": "SD", "SSD, random": "random", "SSD, neural": "neural", "SSD, adaptive": "adaptive"}
    left = tuple(_by_batch(words, rows, lane, _each) for lane, words in names.items())
    right = [_by_batch(name, rows, f"SSD, {name}", _gain) for name in FALLBACKS]
    return Figure(
        "measured-6",
        "Answers to a miss, by batch",
        (
            Panel("speed", "batch", "tokens/s of a sequence", left, doubling=True),
            Panel("gain", "batch", "speed, times SD", tuple(line for line in right if line.x), doubling=True),
        ),
        _note(records),
    )


def _by_batch(
    name: str, rows: Sequence[Mapping[str, Any]], lane: str, value: Callable[[Mapping[str, Any]], float]
) -> Line:
    own = [row for row in rows if row["lane"] == lane]
    return Line(name, tuple(float(row["batch"]) for row in own), tuple(value(row) for row in own), False)


def _each(row: Mapping[str, Any]) -> float:
    return float(row["total_tokens_per_second"] / row["batch"])


def _gain(row: Mapping[str, Any]) -> float:
    return float(row["ratio"])


# -- Figure 7 ---------------------------------------------------------------------------------------------------------


def figure_7(records: Records) -> Figure:
    """Speed by prompt set, of the sets that were measured, and the frontier of latency and throughput."""
    frontier = []
    for lane, devices in DEVICES.items():
        own = [row for row in records["fallbacks"]["summary"] if row["lane"] == lane]
        x = tuple(row["total_tokens_per_second"] / row["batch"] for row in own)
        y = tuple(row["total_tokens_per_second"] / devices for row in own)
        notes = tuple(str(row["batch"]) for row in own) if lane in ("AR", "SD") else ()
        frontier.append(Line(lane.replace("SSD, adaptive", "SSD"), x, y, False, notes=notes))
    known = [name for name in SETS if f"qwen-{name}" in records]
    speeds: dict[str, list[tuple[int, dict[str, Any]]]] = {mode: [] for mode in MODES}
    for place, name in enumerate(known):
        for row in summarise(dict(records[f"qwen-{name}"])):
            if row.batch == 1 and row.label in MODES:
                speeds[row.label].append((place, asdict(row)))
    left = tuple(_speeds(mode, own, "tokens_per_second") for mode, own in speeds.items() if own)
    return Figure(
        "measured-7",
        "Speed of a request, and of a core",
        (
            Panel("one request", "prompt set", "tokens/s", left, ticks=tuple(known)),
            Panel("batch 1, 2, 4, 8, 16", "tokens/s of a sequence", "tokens/s of a core", tuple(frontier)),
        ),
        _note(records) + "; AR and SD on one core, SSD and auto on two; bars: lowest and highest run",
    )  # fmt: skip


CURVES = "`saguaro calibrate` and then benchmarks/curves.py"
RECIPES = (
    Recipe("measured-3", ("curves",), CURVES, figure_3),
    Recipe("measured-4", ("ablation", "policies"), "benchmarks/ablation.py and benchmarks/policies.py", figure_4),
    Recipe("measured-5", ("curves",), CURVES, figure_5),
    Recipe("measured-6", ("fallbacks",), "benchmarks/fallbacks.py", figure_6),
    Recipe(
        "measured-7", ("fallbacks", "qwen-humaneval"), "benchmarks/fallbacks.py and `make bench`", figure_7,
        welcome=("qwen-gsm8k_test", "qwen-mt_bench"),
    ),
)  # fmt: skip
