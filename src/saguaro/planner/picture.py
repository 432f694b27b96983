"""A plan as a picture: speed of a request for each mode and placement, with error bars, and tokens of a device beside.

matplotlib is imported when a picture is drawn. Must not know: how numbers came about.
Tests: tests/planner/test_picture.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saguaro.errors import ConfigError

SUFFIXES = (".png", ".svg", ".pdf")
HATCHES = {"ar": "", "sd": "///", "ssd": "xx"}
GREYS = {"ar": "#bbbbbb", "sd": "#7a9cc6", "ssd": "#3f8f6b"}
PANELS = (
    ("tokens_per_second", "speed of one request (tokens/s)"),
    ("tokens_per_second_per_device", "tokens/s of each device"),
)


def draw(plan: Mapping[str, Any], path: Path) -> None:
    """Draw a plan (`advice.plan`) into a file; its suffix chooses the form.

    Raises:
        ConfigError: for another suffix, or when matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"a picture is one of {', '.join(SUFFIXES)}, not {path.name!r}; name the file so.")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(
            "drawing needs matplotlib, which is not installed here; pip install 'saguaro-llm[figures]' brings it."
        ) from None
    rows = list({(row["mode"], row["placement"]): row for row in reversed(plan["rows"])}.values())[::-1]
    labels = [f"{row['mode'].upper()} on {row['placement']}" for row in rows]
    with matplotlib.rc_context({"svg.hashsalt": "saguaro", "font.size": 9.5, "axes.axisbelow": True}):
        figure = Figure(figsize=(9.6, 0.42 * len(rows) + 1.7), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, (name, label) in zip((left, right), PANELS, strict=True):
            for place, row in enumerate(rows):
                bars = [[row[name] - row[name] * row["low"] / row["tokens_per_second"]],
                        [row[name] * row["high"] / row["tokens_per_second"] - row[name]]]  # fmt: skip
                axes.barh(
                    place, row[name], color=GREYS[row["mode"]], hatch=HATCHES[row["mode"]], edgecolor="#333333",
                    xerr=bars, capsize=3, linewidth=0.6,
                )  # fmt: skip
            axes.set_xlabel(label)
            axes.grid(axis="x", color="#dddddd", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        left.set_yticks(range(len(rows)), labels)
        left.invert_yaxis()
        models = " with ".join(name for name in (plan["target"], plan["draft"]) if name)
        traffic = plan["traffic"]
        figure.suptitle(
            f"{models} on {plan['hardware']['name']}, {traffic['batch']} at once: predicted, one assumption moved",
            fontsize=9,
        )
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
        figure.savefig(path, dpi=160, metadata=metadata)
