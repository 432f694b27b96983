"""The latency-throughput frontier of a record: speed of one request against speed of all, a line for each mode.

Up is more throughput for who runs the engine, right is more speed for each who uses it; along a line more and more
requests run at once. matplotlib is imported when a picture is drawn and not before (extra `figures`). Must not know:
engines, terminals. Tests: tests/bench/test_frontier.py.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.bench.summary import LoadRow, load_rows
from saguaro.errors import ConfigError
from saguaro.records import describe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
MODE_STYLES = {"ar": ("#0072B2", "o"), "sd": ("#D55E00", "s"), "ssd": ("#009E73", "D")}
"""Colour and marker of a mode; the colours are told apart with every common kind of colour blindness."""
DASHES = ("-", "--", ":")
MARKER_POINTS = {"o": 15.0, "s": 13.5, "D": 12.5, "^": 15.0}  # of about the same area; the label stands inside
PANEL_WIDTH, LEGEND_WIDTH, HEIGHT = 5.4, 1.6, 4.4  # inches


@dataclass(frozen=True)
class Line:
    """One mode and placement at one temperature; `points` are (a request, in all, label), fewest at once first."""

    label: str
    mode: str
    points: list[tuple[float, float, str]]


def frontier(record: Mapping[str, Any], *, per_device: bool = False) -> dict[float, list[Line]]:
    """The lines of each temperature: medians over repeats, in tokens a second.

    Args:
        record: of a closed loop (points are labelled with the batch) or of an open one (with the arrival rate).
        per_device: divide the total by the number of devices that the mode uses.

    Raises:
        ConfigError: when the record has no such runs.
    """
    total = "tokens_per_second_per_device" if per_device else "total_tokens_per_second"
    found: dict[float, dict[str, list[LoadRow]]] = {}
    for row in load_rows(record):
        if row.medians["tokens_per_second"] and row.medians[total] is not None:
            found.setdefault(row.temperature, {}).setdefault(row.label, []).append(row)
    if not found:
        raise ConfigError(f"the record has no run with tokens_per_second and {total}; make it again with this version.")
    return {
        temperature: [Line(label, rows[0].mode, [_point(row, total) for row in rows]) for label, rows in lines.items()]
        for temperature, lines in found.items()
    }


def draw(record: Mapping[str, Any], path: Path, *, per_device: bool = False, title: str | None = None) -> None:
    """Draw the frontier into a file; its suffix chooses the form.

    Args:
        record: what `saguaro bench --json` writes.
        path: ends with one of `SUFFIXES`.
        per_device: as `frontier`.
        title: None takes models, prompts and machine from the record.

    Raises:
        ConfigError: for another suffix, a record without such runs, or when matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"a picture is one of {', '.join(SUFFIXES)}, not {path.name!r}; name the file so.")
    panels = frontier(record, per_device=per_device)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(
            "drawing needs matplotlib, which is not installed here; pip install 'saguaro-llm[figures]' brings it."
        ) from None
    # The same record gives the same bytes: no date, no random ids.
    with matplotlib.rc_context({"svg.hashsalt": "saguaro", "font.size": 9.5, "axes.axisbelow": True}):
        figure = Figure(figsize=(PANEL_WIDTH * len(panels) + LEGEND_WIDTH, HEIGHT), layout="constrained")
        _panels(figure, panels, _unit(record), per_device=per_device)
        text = _title(record) if title is None else title
        figure.suptitle(textwrap.fill(text, 100 * len(panels)), fontsize=8.5, color="#444444")
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
        figure.savefig(path, dpi=160, metadata=metadata)


def _panels(figure: Figure, panels: Mapping[float, Sequence[Line]], unit: str, *, per_device: bool) -> None:
    every = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (temperature, lines) in zip(every, panels.items(), strict=True):
        _panel(axes, lines)
        if len(panels) > 1:
            axes.set_title(f"temperature {temperature:g}", fontsize=9.5)
    figure.supxlabel("speed of one request, decoding (tokens/s)", fontsize=9.5)
    figure.supylabel(f"speed of all requests{' ÷ devices' if per_device else ''} (tokens/s)", fontsize=9.5)
    every[0].set_xlim(left=0)
    every[0].set_ylim(bottom=0)
    known = {handle.get_label(): handle for axes in every for handle in axes.get_lines()}
    figure.legend(
        handles=list(known.values()), title=f"in the markers:\n{unit}", loc="outside right center", frameon=False,
        fontsize=9, title_fontsize=8.5, markerscale=0.55, alignment="left", handlelength=3.2,
    )  # fmt: skip


def _panel(axes: Axes, lines: Sequence[Line]) -> None:
    drawn: dict[str, int] = {}
    for depth, line in enumerate(lines, start=2):
        colour, marker = MODE_STYLES.get(line.mode, ("#555555", "^"))
        dashes = DASHES[min(drawn.get(line.mode, 0), len(DASHES) - 1)]
        drawn[line.mode] = drawn.get(line.mode, 0) + 1
        x, y, labels = zip(*line.points, strict=True)
        axes.plot(
            x, y, dashes, color=colour, linewidth=1.8, label=line.label, marker=marker, markeredgecolor="white",
            markersize=MARKER_POINTS[marker], zorder=depth,
        )  # fmt: skip
        for at, label in zip(zip(x, y, strict=True), labels, strict=True):
            # Inside its marker, and as deep as it, a label cannot be mixed up with another line's.
            size = 8 if len(label) <= 2 else 6
            axes.annotate(
                label, at, fontsize=size, fontweight="bold", color="white", ha="center", va="center_baseline",
                zorder=depth,
            )  # fmt: skip
    axes.margins(x=0.1, y=0.12)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _point(row: LoadRow, total: str) -> tuple[float, float, str]:
    one, all_ = row.medians["tokens_per_second"], row.medians[total]
    assert one is not None
    assert all_ is not None
    return one, all_, f"{row.batch if row.rate is None else row.rate:g}"


def _unit(record: Mapping[str, Any]) -> str:
    """What the label of a point counts."""
    is_open = any(run.get("rate") is not None for run in record["runs"])
    return "requests offered a second" if is_open else "requests at once"


def _title(record: Mapping[str, Any]) -> str:
    """The record's own description; a picture of medians has no extremes."""
    return describe(dict(record)).removesuffix(" (lowest–highest)")
