"""A record of loads, summarised: one row for each mode at each batch or rate, medians over repeats.

`saguaro.records` summarises the speed of a request; this is about many requests at once. Must not know: engines,
terminals, pictures. Tests: tests/bench/test_summary.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from saguaro.errors import ConfigError
from saguaro.records import setting_name

MEASURED = (
    "total_tokens_per_second", "tokens_per_second", "tokens_per_second_per_device", "ttft_ms_p50", "ttft_ms_p99",
    "queue_ms_p50", "queue_ms_p99", "itl_ms_p50", "itl_ms_p99", "gap_ms_p50", "gap_ms_p99", "hit_rate",
    "offered_rate", "achieved_rate",
)  # fmt: skip


@dataclass(frozen=True)
class LoadRow:
    """The runs of one setting.

    `medians` has each name of `MEASURED`, None where no run has it; `low` and `high` are the extremes of
    `total_tokens_per_second`. `over_ar` is the total against AR in the paper's placement, within each repeat.
    `kept_up` counts the repeats that kept up with the arrivals, None in a closed loop.
    """

    label: str
    mode: str
    devices: str
    temperature: float
    batch: int
    rate: float | None
    repeats: int
    medians: Mapping[str, float | None]
    low: float
    high: float
    over_ar: float | None
    kept_up: int | None


def load_rows(record: Mapping[str, Any]) -> list[LoadRow]:
    """One row per temperature, batch or rate, mode and placement, in this order; lanes as they first appear.

    Raises:
        ConfigError: when the record has no run with a total speed.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in record.get("runs", ()):
        if run.get("total_tokens_per_second"):
            key = (run["temperature"], run.get("rate"), run["batch"], setting_name(run))
            groups.setdefault(key, []).append(run)
    if not groups:
        raise ConfigError("the record has no run with tokens in all per second; `saguaro bench --json` writes them.")
    totals = {(*key, run["repeat"]): run["total_tokens_per_second"] for key, runs in groups.items() for run in runs}
    rows = [_row(key, runs, totals) for key, runs in groups.items()]
    return sorted(rows, key=lambda row: (row.temperature, row.rate or 0.0, row.batch))


def _row(key: tuple[Any, ...], runs: list[dict[str, Any]], totals: Mapping[tuple[Any, ...], float]) -> LoadRow:
    temperature, rate, batch, label = key
    pairs = ((totals[(*key, run["repeat"])], totals.get((*key[:3], "AR", run["repeat"]))) for run in runs)
    values = [run["total_tokens_per_second"] for run in runs]
    return LoadRow(
        label=label,
        mode=runs[0]["mode"],
        devices=str(runs[0].get("devices", "")),
        temperature=temperature,
        batch=batch,
        rate=rate,
        repeats=len(runs),
        medians={name: _median(run.get(name) for run in runs) for name in MEASURED},
        low=min(values),
        high=max(values),
        over_ar=_median(total / base for total, base in pairs if base),
        kept_up=None if rate is None else sum(bool(run.get("kept_up")) for run in runs),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
