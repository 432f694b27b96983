"""Several settings of a few engines, measured in turns: what the experiments of this folder have in common.

A *lane* is an engine and what is changed in it (`LLM.configure`) before its turn. Lanes take turns prompt group by
prompt group, so that drift of the machine meets all of them alike. Every text is compared with the first lane's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from saguaro import LLM, Completion, RequestMetrics, SamplingParams
from saguaro.bench.figures import run_figures
from saguaro.bench.machine import machine, versions
from saguaro.bench.run import model_name
from saguaro.records import write_record

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"
log = Console(stderr=True)


@dataclass(frozen=True)
class Lane:
    """A name, the engine it runs on, and settings of that engine. `exact`: its tokens must be the first lane's."""

    name: str
    engine: str
    mode: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = True


def prompts(path: Path, count: int) -> list[str]:
    """The first prompts of a file, or of a set of this folder."""
    file = path if path.is_file() else path / "prompts.jsonl"
    lines = file.read_text().splitlines()
    return [json.loads(line)["prompt"] for line in lines[:count]]


def parser(words: str, *, num_prompts: int, max_tokens: int) -> argparse.ArgumentParser:
    """The options that all experiments have. `words`: what a script says of itself."""
    found = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--target", required=True)
    found.add_argument("--draft", required=True)
    found.add_argument("--prompts", type=Path, default=ROOT / "prompts" / "humaneval")
    found.add_argument("--num-prompts", type=int, default=num_prompts)
    found.add_argument("--max-tokens", type=int, default=max_tokens)
    found.add_argument("--dtype", default="int8")
    return found


def numbers(text: str) -> list[int]:
    """An option that lists whole numbers by comma."""
    return [int(part) for part in text.split(",")]


def reals(text: str) -> list[float]:
    """An option that lists numbers by comma."""
    return [float(part) for part in text.split(",")]


def seeded(temperature: float, max_tokens: int) -> Callable[[int], SamplingParams]:
    """Parameters of the request with a number, which is its seed; all are equally long."""
    return lambda number: SamplingParams(temperature=temperature, seed=number, max_tokens=max_tokens, ignore_eos=True)


def pair(options: argparse.Namespace) -> str:
    """The models, in the words of a note."""
    return f"{model_name(options.target)} with {model_name(options.draft)}, {options.dtype}"


def speed(row: Mapping[str, Any]) -> str:
    """Tokens a second of a row of `summary`, with their range."""
    return f"{row['total_tokens_per_second']:.1f} ({row['low']:.1f}–{row['high']:.1f})"


def on(facts: Mapping[str, Any]) -> str:
    """The machine, in the words of a note."""
    return f"{facts['cpu']}, {facts['cores']} cores"


def keep(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str, **more: Any) -> None:
    """Write results/NAME.json: a table, and what it was made from."""
    facts = machine()
    record = {"table": {"columns": list(columns), "rows": list(rows)}, "note": f"{note}; {on(facts)}", **more}
    write_record({**record, "machine": facts, "versions": versions()}, RESULTS / f"{name}.json")
    log.print(rows)


def measure(
    engines: Mapping[str, LLM],
    lanes: Sequence[Lane],
    texts: Sequence[str],
    *,
    params: Callable[[int], SamplingParams],
    batch: int = 1,
    repeats: int = 1,
    kept: dict[str, list[RequestMetrics]] | None = None,
) -> list[dict[str, Any]]:
    """One row a lane and repeat: the figures of `bench`, and the speeds of all rows together.

    Args:
        engines: by the names that lanes use.
        lanes: in the order of their turns; each turn begins with another one.
        texts: prompts, in groups of `batch` that run together.
        params: of the request with that number.
        batch: rows that run at once. Prompts are taken in before, so that rows decode together from the beginning.
        repeats: passes over all texts.
        kept: takes the metrics of every request, by lane.
    """
    groups = [range(first, min(first + batch, len(texts))) for first in range(0, len(texts), batch)]
    rows: list[dict[str, Any]] = []
    first: dict[int, list[int]] = {}
    for repeat in range(repeats):
        done: dict[str, list[Completion]] = {lane.name: [] for lane in lanes}
        totals: dict[str, list[float]] = {lane.name: [] for lane in lanes}
        before: dict[str, dict[str, Any]] = {}
        for number, group in enumerate(groups):
            shift = (repeat + number) % len(lanes)
            for lane in (*lanes[shift:], *lanes[:shift]):
                llm = engines[lane.engine]
                if lane.changes:
                    llm.configure(**lane.changes)
                before.setdefault(lane.name, llm.statistics())
                if batch > 1:
                    llm.generate([texts[i] for i in group], SamplingParams(temperature=0.0, max_tokens=1))
                found = llm.generate([texts[i] for i in group], [params(i) for i in group])
                done[lane.name] += found
                totals[lane.name].append(sum((len(one.token_ids) - 1) / one.metrics.decode_seconds for one in found))
        for lane in lanes:
            if kept is not None:
                kept.setdefault(lane.name, []).extend(one.metrics for one in done[lane.name])
            row = run_figures(done[lane.name], engines[lane.engine].statistics(), mode=lane.mode)
            row |= {"lane": lane.name, "mode": lane.mode, "repeat": repeat, "batch": batch}
            row["total_tokens_per_second"] = sum(totals[lane.name]) / len(totals[lane.name])
            row["exact"] = _compare(first, done[lane.name], lane)
            rows.append(row)
            log.print(f"batch {batch}, repeat {repeat + 1}/{repeats}, {lane.name}: {_words(row)}")
    return rows


def _compare(first: dict[int, list[int]], found: Sequence[Completion], lane: Lane) -> bool:
    """Whether every text is that of the first lane that must agree."""
    if not lane.exact:
        return False
    same = True
    for number, one in enumerate(found):
        same &= first.setdefault(number, one.token_ids) == one.token_ids
    if not same:
        raise SystemExit(f"{lane.name} gave other tokens than the lane before it.")
    return same


def _words(row: Mapping[str, Any]) -> str:
    hit = "" if row["hit_rate"] is None else f", hit rate {row['hit_rate']:.2f}"
    length = row["acceptance_length"] or 1.0
    return f"{row['total_tokens_per_second']:.1f} tokens/s, {length:.2f} tokens a round{hit}"


def summary(rows: Sequence[Mapping[str, Any]], against: str | None = None) -> list[dict[str, Any]]:
    """A row a lane and batch: medians over repeats; `ratio` is the median of the ratios to the lane `against`."""
    speeds = {(row["lane"], row["batch"], row["repeat"]): row["total_tokens_per_second"] for row in rows}
    found = []
    for lane, batch in dict.fromkeys((row["lane"], row["batch"]) for row in rows):
        own = [row for row in rows if (row["lane"], row["batch"]) == (lane, batch)]
        values = [row["total_tokens_per_second"] for row in own]
        ratios = [
            speeds[lane, batch, row["repeat"]] / speeds[against, batch, row["repeat"]]
            for row in own
            if against and (against, batch, row["repeat"]) in speeds
        ]
        one: dict[str, Any] = {"lane": lane, "batch": batch, "low": min(values), "high": max(values)}
        one["total_tokens_per_second"] = median(values)
        one["ratio"] = median(ratios) if ratios else None
        for name in ("hit_rate", "acceptance_rate", "acceptance_length", "depth", "verify_ms", "target_wait_ms"):
            known = [row[name] for row in own if row[name] is not None]
            one[name] = median(known) if known else None
        found.append(one)
    return found


def text(value: float | None, digits: int = 2) -> str:
    """A number of a table, or a dash."""
    return "–" if value is None else f"{value:.{digits}f}"
