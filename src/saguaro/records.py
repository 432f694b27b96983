"""Benchmark records: what a run says, their summary, and the tables that README and docs make of them.

A record is one JSON object: `machine`, `versions`, `config` and `runs` (one object per mode, batch, temperature and
repeat), or a `table` of its own. Text between `<!-- figures:NAME -->` and `<!-- /figures -->` is made from
`benchmarks/results/NAME.json` and from nothing else. Must not know: engines, how runs are made, terminals.
Tests: tests/bench/test_records.py, tests/house/test_figures.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from saguaro.errors import ConfigError

SCHEMA = 2
"""2: a run has a `rate`, and `total_tokens_per_second` counts the loaded phase of a loop, prefill included."""
KINDS = (None, "shared_noise", "rejection")
MODE_NAMES = {"ar": "AR", "sd": "SD", "ssd": "SSD", "auto": "auto"}
BLOCK = re.compile(r"(<!-- figures:(?P<name>[\w.-]+) -->\n)(?P<body>.*?)(<!-- /figures -->)", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """The runs of one setting: medians over repeats; ratios are medians of the ratios within each repeat.

    `speedup_ar` and `speedup_sd` compare with AR and SD in the paper's placement (on the target's devices alone) of
    the same repeat, temperature and batch; None where that was not run. `bound_share` is measured / bound.
    """

    mode: str
    verification: str | None
    equal_hardware: bool
    temperature: float
    batch: int
    rate: float | None
    devices: str
    tokens_per_second: float
    low: float
    high: float
    speedup_ar: float | None
    speedup_sd: float | None
    acceptance_length: float | None
    hit_rate: float | None
    depth: float | None
    verify_ms: float | None
    target_wait_ms: float | None
    ttft_ms: float | None
    bound_share: float | None

    @property
    def label(self) -> str:
        """What a table calls this setting."""
        return _label(self.mode, self.verification, self.equal_hardware)


def summarise(record: dict[str, Any]) -> list[Row]:
    """One row per (temperature, batch, rate, mode, placement), in the order in which they first appear."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in record["runs"]:
        kind = run.get("verification")
        key = (run["temperature"], run["batch"], run.get("rate"), run["mode"], kind, bool(run.get("equal_hardware")))
        groups.setdefault(key, []).append(run)
    speeds = {(*key, run["repeat"]): run["tokens_per_second"] for key, runs in groups.items() for run in runs}
    rows = [_row(key, runs, speeds) for key, runs in groups.items()]
    return sorted(rows, key=lambda row: (row.temperature, row.batch, row.rate or 0.0))


def setting_name(run: Mapping[str, Any]) -> str:
    """What tables and pictures call the mode and placement of a run."""
    return _label(run["mode"], run.get("verification"), bool(run.get("equal_hardware")))


def read_record(path: Path) -> dict[str, Any]:
    """A record from its file.

    Raises:
        ConfigError: when the file is missing or is no record.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"record {path} does not exist; `saguaro bench --json` writes one.") from None
    except ValueError as error:
        raise ConfigError(f"record {path} is not JSON: {error}.") from None
    if not isinstance(record, dict) or not ("runs" in record or "table" in record):
        raise ConfigError(f"{path} is not a record: it has neither 'runs' nor 'table'.")
    return record


def write_record(record: dict[str, Any], path: Path) -> None:
    """Write a record; a reader sees the old file or the whole new one."""
    staging = path.with_name(path.name + ".writing")
    staging.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    staging.replace(path)


def markdown(record: dict[str, Any]) -> str:
    """A record as a Markdown table with a line that says what was run on what."""
    if "table" in record:
        table = record["table"]
        return "\n".join([*_lines(table["columns"], table["rows"]), *_note(record.get("note", ""))]) + "\n"
    rows = summarise(record)
    columns: dict[str, Callable[[Row], str]] = {
        "": lambda row: row.label,
        "devices": lambda row: row.devices,
        "tokens/s": lambda row: f"{row.tokens_per_second:.1f} ({row.low:.1f}–{row.high:.1f})",
        "× AR": lambda row: _cell(row.speedup_ar, 2),
        "× SD": lambda row: _cell(row.speedup_sd, 2),
        "tokens a round": lambda row: _cell(row.acceptance_length, 2),
        "hit rate": lambda row: _cell(row.hit_rate, 2),
        "verify ms": lambda row: _cell(row.verify_ms, 1),
        "of bound": lambda row: _cell(row.bound_share, 2),
    }
    if len({row.temperature for row in rows}) > 1:
        columns = {"temperature": lambda row: f"{row.temperature:g}", **columns}
    if len({row.batch for row in rows}) > 1:
        columns = {"batch": lambda row: str(row.batch), **columns}
    if any(row.rate is not None for row in rows):
        columns = {"requests/s": lambda row: _cell(row.rate, 2), **columns}
    cells = [[show(row) for show in columns.values()] for row in rows]
    return "\n".join([*_lines(list(columns), cells), *_note(describe(record))]) + "\n"


def describe(record: dict[str, Any]) -> str:
    """What was run on what, in one line."""
    config, machine = record.get("config", {}), record.get("machine", {})
    models = " with ".join(name for name in (config.get("target"), config.get("draft")) if name)
    parts = [
        models,
        f"{config.get('num_prompts')} prompts of {config.get('dataset')} × {config.get('max_tokens')} tokens",
        _dtypes(record),
        f"{machine.get('cpu')}, {machine.get('cores')} cores",
        f"median of {len({run.get('repeat') for run in record['runs']})} interleaved repeats (lowest–highest)",
    ]
    return "; ".join(part for part in parts if part and "None" not in part)


def _dtypes(record: dict[str, Any]) -> str:
    """The target's dtype, and the draft's where it is another."""
    dtype = str(record["runs"][0].get("dtype") if record.get("runs") else None)
    plans = [engine.get("plan") or {} for engine in record.get("engines", {}).values()]
    other = {str(plan["draft_dtype"]) for plan in plans if plan.get("draft_dtype")} - {dtype}
    return f"{dtype}, draft {' and '.join(sorted(other))}" if other else dtype


def fill(text: str, results: Path) -> str:
    """`text` with every figures block made anew from the record that it names."""

    def block(match: re.Match[str]) -> str:
        path = results / f"{match['name']}.json"
        body = markdown(read_record(path)) if path.exists() else f"_No record `{match['name']}` yet._\n"
        return match[1] + body + match[4]

    return BLOCK.sub(block, text)


def fill_files(paths: Iterable[Path], results: Path) -> list[Path]:
    """Fill the blocks of files in place; returns those that changed."""
    changed = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        new = fill(text, results)
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed.append(path)
    return changed


def _row(key: tuple[Any, ...], runs: list[dict[str, Any]], speeds: dict[tuple[Any, ...], float]) -> Row:
    temperature, batch, rate, mode, kind, equal = key
    values = [run["tokens_per_second"] for run in runs]

    def ratio(other: str) -> float | None:
        kinds = KINDS if other == "ar" else (kind,)  # AR is the same whatever would verify
        pairs = []
        for run in runs:
            bases = (speeds.get((temperature, batch, rate, other, each, False, run["repeat"])) for each in kinds)
            pairs.append((run["tokens_per_second"], next((base for base in bases if base), None)))
        return _median(speed / base for speed, base in pairs if base)

    return Row(
        mode=mode,
        verification=kind,
        equal_hardware=equal,
        temperature=temperature,
        batch=batch,
        rate=rate,
        devices=str(runs[0].get("devices", "")),
        tokens_per_second=median(values),
        low=min(values),
        high=max(values),
        speedup_ar=ratio("ar"),
        speedup_sd=ratio("sd"),
        bound_share=_median(run["tokens_per_second"] / run["bound"] for run in runs if run.get("bound")),
        **{
            name: _median(run[name] for run in runs if run.get(name) is not None)
            for name in ("acceptance_length", "hit_rate", "depth", "verify_ms", "target_wait_ms", "ttft_ms")
        },
    )


def _label(mode: str, verification: str | None, equal_hardware: bool) -> str:
    # AR has no draft to verify, whatever kind the benchmark asked for.
    other = ", rejection" if verification == "rejection" and mode != "ar" else ""
    return MODE_NAMES.get(mode, mode) + other + (", all devices" if equal_hardware else "")


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return median(known) if known else None


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _lines(columns: list[str], rows: list[list[Any]]) -> list[str]:
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return head + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def _note(text: str) -> list[str]:
    return ["", text] if text else []
