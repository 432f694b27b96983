"""Runs a benchmark: opens one engine a lane, keeps it, and interleaves modes within each repeat.

Drift of the machine (heat, neighbours) hits all modes alike: with one row at a time they take turns prompt by prompt,
otherwise loop by loop, and ratios are taken within a repeat. The record is complete JSON after every run, so an
interrupted benchmark keeps what it measured. Must not know: terminals, how engines work.
Tests: tests/bench/test_run.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

from saguaro.bench.equality import Comparison
from saguaro.bench.figures import plan_figures, run_figures
from saguaro.bench.load import Load, Request, Serving, closed_loop, open_loop
from saguaro.bench.load_figures import load_figures
from saguaro.bench.machine import machine, versions
from saguaro.bench.session import Session
from saguaro.bench.settings import WAVES, BenchSettings, Lane, Setting, lanes
from saguaro.records import SCHEMA
from saguaro.request import SamplingParams

OnRun = Callable[[dict[str, Any], dict[str, Any]], None]  # (the record so far, the run that was added)
OnEnd = Callable[[Setting, Lane], None]  # whose request has ended


def run(
    settings: BenchSettings,
    *,
    open_llm: Callable[..., Any],
    serve: Callable[[Any], Serving] = Session,
    on_run: OnRun | None = None,
    on_end: OnEnd | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run everything and return the record.

    Args:
        settings: what to measure.
        open_llm: makes an engine from keyword options (`saguaro.LLM`); used as a context manager.
        serve: how requests get into such an engine one by one.
        on_run: told after every run.
        on_end: told after every request.
        facts: more about the machine, for the record.
    """
    every = lanes(settings)
    record = new_record(settings)
    record["machine"] |= facts or {}
    comparison = Comparison()
    record["token_equality"] = comparison.entries
    with ExitStack() as stack:
        engines = {lane.name: stack.enter_context(open_llm(**lane.options)) for lane in every}
        for llm in engines.values():
            llm.generate([settings.prompts[0]], _params(settings, 0.0, 0, settings.warmup_tokens))
        for setting in settings.schedule():
            before = {name: llm.statistics() for name, llm in engines.items()}
            done: dict[str, list[Load]] = {lane.name: [] for lane in every}
            for numbers, lane in turns(settings, setting, every):
                end = None if on_end is None else partial(on_end, setting, lane)
                done[lane.name].append(_loop(serve(engines[lane.name]), settings, setting, numbers, end))
            for lane in every:
                statistics = engines[lane.name].statistics()
                row = _row(lane, setting, settings, done[lane.name], before[lane.name], statistics)
                record["runs"].append(row)
                record["engines"][lane.name] = plain_statistics(statistics)
                ids = [one.completion.token_ids for load in done[lane.name] for one in load.served]
                comparison.add(_run_name(lane, setting), row, ids)
                if on_run is not None:
                    on_run(record, row)
    record["complete"] = True
    return record


def new_record(settings: BenchSettings) -> dict[str, Any]:
    """A record without runs."""
    engine = {name: plain(value) for name, value in settings.engine.items() if name != "round_log"}  # a local path
    for name in ("target", "draft", "profile"):
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
            "rates": list(settings.rates),
            "num_requests": settings.num_requests,
            "seconds": settings.seconds,
            "max_batch": settings.max_batch,
            "prefix_cache": bool(settings.engine.get("prefix_cache", False)),
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


def turns(settings: BenchSettings, setting: Setting, every: Sequence[Lane]) -> Iterator[tuple[range, Lane]]:
    """Pieces of the requests (by their numbers) through all lanes, beginning with another lane each time.

    An open loop is one piece. A closed loop of one row has a piece for each request; one of several rows has pieces of
    `WAVES` requests a row, because each piece has a phase at its end where fewer rows run.
    """
    for number, piece in enumerate(pieces(settings, setting)):
        shift = (setting.repeat + number) % len(every)
        for lane in (*every[shift:], *every[:shift]):
            yield piece, lane


def pieces(settings: BenchSettings, setting: Setting) -> list[range]:
    """The requests of a run as they are measured together; the last piece takes the rest."""
    count = settings.count(setting)
    if setting.rate is not None:
        return [range(count)]
    size = 1 if setting.batch == 1 else WAVES * setting.batch
    begins = [size * number for number in range(max(1, count // size))]
    return [range(begin, end) for begin, end in zip(begins, [*begins[1:], count], strict=True)]


def total_requests(settings: BenchSettings) -> int:
    """How many requests run in all, over all lanes."""
    return len(lanes(settings)) * sum(settings.count(setting) for setting in settings.schedule())


def _loop(
    serving: Serving, settings: BenchSettings, setting: Setting, numbers: range, on_end: Callable[[], None] | None
) -> Load:
    """One piece on one engine."""
    requests = [
        Request(
            number,
            settings.prompts[number % len(settings.prompts)],
            _params(settings, setting.temperature, number, settings.max_tokens),
        )
        for number in numbers
    ]
    times = settings.arrivals(setting)
    if times is not None:
        return open_loop(serving, requests, times, on_end=on_end)
    return closed_loop(serving, requests, setting.batch, on_end=on_end)


def _row(
    lane: Lane,
    setting: Setting,
    settings: BenchSettings,
    done: list[Load],
    before: Mapping[str, Any],
    statistics: Mapping[str, Any],
) -> dict[str, Any]:
    completions = [one.completion for load in done for one in load.served]
    return {
        "mode": lane.mode,
        "repeat": setting.repeat,
        "dataset": settings.dataset,
        "batch": setting.batch,
        "rate": setting.rate,
        "temperature": setting.temperature,
        "equal_hardware": lane.equal_hardware,
        "devices": lane.devices,
        **plain(plan_figures(statistics, lane.options)),
        **run_figures(completions, statistics, mode=lane.mode, before=before),
        **load_figures(done, num_devices=lane.num_devices, arrivals=settings.arrivals(setting)),
    }


def _run_name(lane: Lane, setting: Setting) -> str:
    load = f"batch {setting.batch}" if setting.rate is None else f"rate {setting.rate:g}"
    return f"{lane.name}, {load}, repeat {setting.repeat}"


def _params(settings: BenchSettings, temperature: float, number: int, max_tokens: int) -> SamplingParams:
    return SamplingParams(
        temperature=temperature, seed=settings.seed + number, max_tokens=max_tokens, ignore_eos=settings.ignore_eos
    )
