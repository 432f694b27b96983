"""What `saguaro bench` shows: a line for each run, the tables at the end, and whether outputs agree.

Must not know: how runs are made or what numbers mean. Tests: tests/cli/test_bench.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from saguaro.bench.summary import LoadRow

PIPE_WIDTH = 160  # columns of a table where there is no terminal
WHOLE = ("devices", "tokens/s", "tokens/s in all")  # columns whose cells stay in one line


def bar() -> Progress:
    """A bar on a terminal; elsewhere the lines alone."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, soft_wrap=True)
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def show(record: dict[str, Any]) -> None:
    """The summary tables and what the comparison of outputs said."""
    from rich.console import Console

    from saguaro.bench.summary import load_rows

    console = Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(_speed_table(record))
    if any(run["batch"] > 1 or run["rate"] is not None for run in record["runs"]):
        rows = load_rows(record)
        is_open = any(row.rate is not None for row in rows)
        console.print(_open_table(rows) if is_open else _closed_table(rows))
    for warning in warnings(record):
        console.print(warning, markup=False, highlight=False)
    console.print(verdict(record))


def warnings(record: dict[str, Any]) -> list[str]:
    """What went wrong in an engine while it was measured; its figures are not those of a quiet run then."""
    found = ((name, engine.get("warnings") or ()) for name, engine in record["engines"].items())
    return [f"Warning of {name}: {warning}" for name, each in found for warning in each]


def progress(row: dict[str, Any], repeats: int) -> str:
    """One run in a line."""
    load = f"batch {row['batch']}" if row["rate"] is None else f"{row['rate']:g} requests/s"
    where = f"repeat {row['repeat'] + 1}/{repeats}, T {row['temperature']:g}, {load}"
    hits = "" if row["hit_rate"] is None else f", hit rate {row['hit_rate']:.2f}"
    length = "" if row["acceptance_length"] is None else f", {row['acceptance_length']:.2f} tokens a round"
    total = f", {row['total_tokens_per_second']:.1f} in all" if row["batch"] > 1 else ""
    late = ", DID NOT KEEP UP" if row["kept_up"] is False else ""
    speed = f"{row['tokens_per_second']:.1f} tokens/s{total}"
    return f"{where}: {row['mode']} on {row['devices']}: {speed}{length}{hits}{late}"


def verdict(record: dict[str, Any]) -> str:
    """Whether the outputs agree, in a sentence."""
    compared = record["token_equality"]
    different = [entry for entry in compared if not entry["equal"]]
    wrong = [entry for entry in different if entry["expected"]]
    if not compared:
        return "One run: no outputs to compare."
    if wrong:
        where = wrong[0]["first_difference"]
        return (
            f"OUTPUTS DIFFER: {wrong[0]['of']} from {wrong[0]['with']} at prompt {where['prompt']}, "
            f"token {where['position']}; {len(wrong)} of {len(compared)} comparisons that must agree."
        )
    if different:
        return f"Outputs are equal where they must be; {len(different)} others differ, as independent draws may."
    return f"Outputs are equal, token for token, in all {len(compared)} comparisons."


def _speed_table(record: dict[str, Any]) -> Table:
    """The speed of a request, and what it is made of."""
    from saguaro.records import describe, summarise

    rows = summarise(record)
    is_open = any(row.rate is not None for row in rows)
    table = _table(
        describe(record), "devices", "T", "requests/s" if is_open else "batch", "tokens/s", "× AR", "× SD",
        "tokens a round", "hit rate", "depth", "verify ms", "wait ms", "first token ms", "of bound",
    )  # fmt: skip
    for row in rows:
        speed = f"{row.tokens_per_second:.1f} ({row.low:.1f}–{row.high:.1f})"
        cells = (
            (row.speedup_ar, 2), (row.speedup_sd, 2), (row.acceptance_length, 2), (row.hit_rate, 2), (row.depth, 2),
            (row.verify_ms, 1), (row.target_wait_ms, 1), (row.ttft_ms, 0), (row.bound_share, 2),
        )  # fmt: skip
        load = f"{row.batch if row.rate is None else row.rate:g}"
        numbers = [_cell(value, digits) for value, digits in cells]
        table.add_row(row.label, row.devices, f"{row.temperature:g}", load, speed, *numbers)
    return table


def _closed_table(rows: list[LoadRow]) -> Table:
    """Throughput at each batch."""
    table = _table(
        "Closed loop: `batch` requests always running; milliseconds as p50 / p99", "devices", "T", "batch",
        "tokens/s in all", "× AR", "a request", "a device", "first token ms", "between tokens ms",
        "between deliveries ms",
    )  # fmt: skip
    for row in rows:
        total, *speeds = _speeds(row)
        spans = (_span(row, name) for name in ("ttft_ms", "itl_ms", "gap_ms"))
        over = _cell(row.over_ar, 2)
        table.add_row(row.label, row.devices, f"{row.temperature:g}", str(row.batch), total, over, *speeds, *spans)
    return table


def _open_table(rows: list[LoadRow]) -> Table:
    """Throughput and latency at each rate."""
    table = _table(
        "Open loop: Poisson arrivals, `offered` and `achieved` in requests/s; milliseconds as p50 / p99", "devices",
        "T", "offered", "achieved", "kept up", "tokens/s in all", "a request", "a device", "arrival to first token ms",
        "between tokens ms", "between deliveries ms",
    )  # fmt: skip
    for row in rows:
        offered = f"{row.rate:g} ({_cell(row.medians['offered_rate'], 2)})"  # in the mean, and what chance made of it
        rates = (offered, _cell(row.medians["achieved_rate"], 2))
        kept = f"{row.kept_up}/{row.repeats}"
        spans = (_span(row, name) for name in ("queue_ms", "itl_ms", "gap_ms"))
        table.add_row(row.label, row.devices, f"{row.temperature:g}", *rates, kept, *_speeds(row), *spans)
    return table


def _speeds(row: LoadRow) -> tuple[str, str, str]:
    """Tokens a second in all, of a request, and in all for each device."""
    total, one, device = (
        _cell(row.medians[name], 1)
        for name in ("total_tokens_per_second", "tokens_per_second", "tokens_per_second_per_device")
    )
    return f"{total} ({row.low:.1f}–{row.high:.1f})", one, device


def _table(title: str, *heads: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption_justify="left")
    for head in ("", *heads):
        # What has blanks within is kept in one line; heads may break.
        table.add_column(head, justify="left" if head in ("", "devices") else "right", no_wrap=head in WHOLE)
    return table


def _span(row: LoadRow, name: str) -> str:
    """Median and 99th percentile in milliseconds, with a decimal where it counts."""
    values = (row.medians[f"{name}_{which}"] for which in ("p50", "p99"))
    return " / ".join(_cell(value, 0 if value is None or value >= 10 else 1) for value in values)


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
