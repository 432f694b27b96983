"""Figures of numbers as SVG and PNG, with the numbers beside them as JSON.

Points that were read or measured are hollow markers without a line, simulated and fitted ones lines; markers and dashes
tell lines apart in black and white. matplotlib is imported when a picture is drawn (extra `figures`). Must not know:
what numbers mean. Tests: tests/figures/test_draw.py.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from saguaro.errors import ConfigError
from saguaro.figures.series import Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#555555")
MARKERS = ("o", "s", "D", "^", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
NOTE_WIDTH = 52
"""Letters of the words above each panel."""


def draw_all(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Write name.svg, name.png and name.json of each figure; returns the paths.

    Raises:
        ConfigError: when matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise ConfigError(
            "drawing needs matplotlib, which is not installed here; pip install 'saguaro-llm[figures]' brings it."
        ) from None
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in figures:
        # The same numbers give the same bytes: no date, no random ids.
        with matplotlib.rc_context({"svg.hashsalt": "saguaro", "font.size": 9, "axes.axisbelow": True}):
            canvas = Canvas(figsize=(4.3 * len(figure.panels), 3.9), layout="constrained")
            for axes, panel in zip(
                canvas.subplots(1, len(figure.panels), squeeze=False)[0], figure.panels, strict=True
            ):
                _panel(axes, panel)
            words = (textwrap.fill(each, NOTE_WIDTH * len(figure.panels)) for each in (figure.message, figure.note))
            canvas.suptitle("\n".join(words), fontsize=9.5)
            for suffix in (".svg", ".png"):
                path = folder / f"{figure.name}{suffix}"
                canvas.savefig(path, dpi=160, metadata={"Date": None} if suffix == ".svg" else {})
                written.append(path)
        data = folder / f"{figure.name}.json"
        data.write_text(json.dumps(figure.plain(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(data)
    return written


def _panel(axes: Axes, panel: Panel) -> None:
    """Lines of one thing, read and simulated, share colour and marker."""
    styles: dict[str, int] = {}
    for line in panel.lines:
        place = styles.setdefault(line.label.split(",")[0], len(styles))
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        axes.plot(
            line.x, line.y, color=colour, marker=marker, label=line.label, linewidth=1.5,
            markersize=6 if line.hollow else 3.5, markerfacecolor="none" if line.hollow else colour,
            linestyle="none" if line.hollow else DASHES[place % len(DASHES)],
        )  # fmt: skip
        for x, low, high in zip(line.x, line.low, line.high, strict=False):
            axes.plot((x, x), (low, high), color=colour, linewidth=1.0)
        for x, y, note in zip(line.x, line.y, line.notes, strict=False):
            axes.annotate(note, (x, y), textcoords="offset points", xytext=(5, 4), fontsize=7, color=colour)
    if panel.logarithmic or panel.doubling:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    if panel.logarithmic:
        axes.set_yscale("log")
    if panel.from_zero and not panel.logarithmic:
        axes.set_ylim(bottom=0)
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks, fontsize=8)
        axes.set_xlim(-0.5, len(panel.ticks) - 0.5)
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if len(panel.lines) > 1:
        axes.legend(frameon=False, fontsize=7.5)
