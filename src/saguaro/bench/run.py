"""Runs a benchmark: opens one engine a lane, keeps it, and interleaves modes within each repeat, prompt by prompt.

Drift of the machine (heat, neighbours) hits all modes alike: they take turns within seconds, and ratios are taken
within a repeat. The record is complete JSON after every repeat, so an interrupted benchmark keeps what it measured.
Must not know: terminals, how engines work. Tests: tests/bench/test_run.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from saguaro.bench.figures import first_difference, plan_figures, run_figures
from saguaro.bench.machine import machine, versions
from saguaro.bench.settings import BenchSettings, Lane, lanes
from saguaro.records import SCHEMA
from saguaro.request import Completion, SamplingParams


@dataclass(frozen=True)
class Setting:
    """What the lanes of a repeat have in common."""

    repeat: int
    temperature: float
    batch: int


OnRun = Callable[[dict[str, Any], dict[str, Any]], None]  # (the record so far, the run that was added)
OnGroup = Callable[[Setting, Lane], None]  # whose group of prompts is done


def run(
    settings: BenchSettings,
    *,
    open_llm: Callable[..., Any],
    on_run: OnRun | None = None,
    on_group: OnGroup | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run everything and return the record.

    Args:
        settings: what to measure.
        open_llm: makes an engine from keyword options (`saguaro.LLM`); used as a context manager.
        on_run: told after every run.
        on_group: told after every group of prompts that ran together.
        facts: more about the machine, for the record.
    """
    every = lanes(settings)
    record = new_record(settings)
    record["machine"] |= facts or {}
    first: dict[float, tuple[str, list[list[int]]]] = {}
    with ExitStack() as stack:
        engines = {lane.name: stack.enter_context(open_llm(**lane.options)) for lane in every}
        for llm in engines.values():
            llm.generate([settings.prompts[0]], _params(settings, 0.0, [0], settings.warmup_tokens))
        for setting in schedule(settings):
            before = {name: llm.statistics() for name, llm in engines.items()}
            done: dict[str, list[list[Completion]]] = {lane.name: [] for lane in every}
            for begin, lane in turns(settings, setting, every):
                done[lane.name].append(_generate(engines[lane.name], settings, setting, begin))
                if on_group is not None:
                    on_group(setting, lane)
            for lane in every:
                statistics = engines[lane.name].statistics()
                row = _row(lane, setting, settings, done[lane.name], before[lane.name], statistics)
                record["runs"].append(row)
                record["engines"][lane.name] = plain_statistics(statistics)
                ids = [completion.token_ids for group in done[lane.name] for completion in group]
                _compare(record, first, f"{lane.name}, batch {setting.batch}, repeat {setting.repeat}", ids)
                if on_run is not None:
                    on_run(record, row)
    record["complete"] = True
    return record


def new_record(settings: BenchSettings) -> dict[str, Any]:
    """A record without runs."""
    engine = {name: plain(value) for name, value in settings.engine.items()}
    for name in ("target", "draft"):
        engine[name] = model_name(engine.get(name))
    return {
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": False,
        "machine": machine(),
        "versions": versions(),
        "config": {
            **engine,
            "modes": list(settings.modes),
            "dataset": settings.dataset,
            "num_prompts": len(settings.prompts),
            "prompts_sha256": hashlib.sha256(json.dumps(list(settings.prompts)).encode()).hexdigest(),
            "max_tokens": settings.max_tokens,
            "temperatures": list(settings.temperatures),
            "batches": list(settings.batches),
            "repeats": settings.repeats,
            "seed": settings.seed,
            "ignore_eos": settings.ignore_eos,
            "equal_hardware": settings.equal_hardware,
            "both_verifications": settings.both_verifications,
        },
        "runs": [],
        "engines": {},
        "token_equality": [],
    }


def model_name(source: str | None) -> str | None:
    """A model without the folders of this machine: the file's or folder's own name; hub ids and toys as they are."""
    if source is None:
        return None
    if source.startswith("toy:truncate="):
        kind, count, inner = source.split(":", 2)
        return f"{kind}:{count}:{model_name(inner)}"
    if source.startswith("toy:") or not source.startswith(("/", ".", "~")):
        return source
    return source.rstrip("/").rsplit("/", 1)[-1]


def plain_statistics(statistics: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics for a record: plain values, models by name."""
    found = plain(statistics)
    if isinstance(plan := found.get("plan"), dict):
        plan |= {name: model_name(plan[name]) for name in ("target", "draft") if name in plan}
    return found


def plain(value: Any) -> Any:
    """A value as JSON would give it back; what JSON has no word for becomes text."""
    return json.loads(json.dumps(value, default=str))


def equal_everywhere(record: dict[str, Any]) -> bool:
    """Whether every comparison that must agree did agree."""
    return all(entry["equal"] for entry in record["token_equality"] if entry["expected"])


def schedule(settings: BenchSettings) -> Iterator[Setting]:
    """Repeats outside, temperatures and batches inside."""
    for repeat in range(settings.repeats):
        for temperature in settings.temperatures:
            for batch in settings.batches:
                yield Setting(repeat, temperature, batch)


def groups(settings: BenchSettings) -> int:
    """How many groups of prompts run in all, over all lanes."""
    every = lanes(settings)
    return sum(1 for setting in schedule(settings) for _ in turns(settings, setting, every))


def turns(settings: BenchSettings, setting: Setting, every: Sequence[Lane]) -> Iterator[tuple[int, Lane]]:
    """Each group of prompts (by its first) through all lanes, beginning with another lane each time."""
    for number, begin in enumerate(range(0, len(settings.prompts), setting.batch)):
        shift = (setting.repeat + number) % len(every)
        for lane in (*every[shift:], *every[:shift]):
            yield begin, lane


def _row(
    lane: Lane,
    setting: Setting,
    settings: BenchSettings,
    done: list[list[Completion]],
    before: Mapping[str, Any],
    statistics: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "mode": lane.mode,
        "repeat": setting.repeat,
        "dataset": settings.dataset,
        "batch": setting.batch,
        "temperature": setting.temperature,
        "equal_hardware": lane.equal_hardware,
        "devices": lane.devices,
        **plain(plan_figures(statistics, lane.options)),
        **run_figures(done, statistics, mode=lane.mode, before=before),
    }


def _generate(llm: Any, settings: BenchSettings, setting: Setting, begin: int) -> list[Completion]:
    prompts = list(settings.prompts[begin : begin + setting.batch])
    params = _params(settings, setting.temperature, range(begin, begin + len(prompts)), settings.max_tokens)
    completions: list[Completion] = llm.generate(prompts, params)
    return completions


def _params(
    settings: BenchSettings, temperature: float, numbers: Sequence[int], max_tokens: int
) -> list[SamplingParams]:
    return [
        SamplingParams(
            temperature=temperature, seed=settings.seed + number, max_tokens=max_tokens, ignore_eos=settings.ignore_eos
        )
        for number in numbers
    ]


def _compare(
    record: dict[str, Any], first: dict[float, tuple[str, list[list[int]]]], name: str, ids: list[list[int]]
) -> None:
    """Compare the tokens of the latest run with the first run of its temperature, whatever mode and batch that had.

    They must agree where the output is a function of the seed alone, on the same target device.
    """
    run = record["runs"][-1]
    temperature = run["temperature"]
    if temperature not in first:
        first[temperature] = (name, ids)
        return
    reference, expected = first[temperature]
    difference = first_difference(expected, ids)
    by_seed = temperature == 0 or run["verification"] in (None, "shared_noise")
    record["token_equality"].append(
        {
            "temperature": temperature,
            "of": name,
            "with": reference,
            "equal": difference is None,
            "expected": by_seed and not run["equal_hardware"],
            "first_difference": difference,
        }
    )
