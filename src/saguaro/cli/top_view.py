"""How the figures of a server look: the state in a line, then a table of the last minute beside all since the start.

Must not know: where figures come from. Tests: tests/cli/test_top.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

NOTHING = "–"
STYLES = {"alive": "bold green", "degraded": "bold yellow", "dead": "bold red", "stopping": "bold yellow"}


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms" if value >= 0.01 else f"{1000 * value:.1f} ms"


# what a row is called: (figure, how it is written); of a histogram, its median and 99th percentile
ROWS: dict[str, tuple[str, Callable[[float], str]]] = {
    "tokens/s": ("tokens_per_second", lambda value: f"{value:.1f}"),
    "tokens a round": ("tokens_a_round", lambda value: f"{value:.2f}"),
    "acceptance": ("acceptance_rate", lambda value: f"{value:.2f}"),
    "hit rate": ("hit_rate", lambda value: f"{value:.2f}"),
    "first token, p50 / p99": ("time_to_first_token_seconds", _seconds),
    "between tokens, p50 / p99": ("inter_token_latency_seconds", _seconds),
    "whole request, p50 / p99": ("request_seconds", _seconds),
}


def table(found: Mapping[str, Any]) -> RenderableType:
    """The figures of `top_figures.figures`."""
    recent, whole = found["recent"], found["since_start"]
    shown = Table(box=None, pad_edge=False, header_style="dim")
    shown.add_column("")
    shown.add_column(f"last {recent['seconds']:.0f} s", justify="right", min_width=16)
    shown.add_column("since the start", justify="right", min_width=16)
    for title, (name, write) in ROWS.items():
        shown.add_row(title, _cell(recent[name], write), _cell(whole[name], write))
    return Group(*heading(found), shown)


def heading(found: Mapping[str, Any]) -> list[Text]:
    """Who lives, what runs, and the room that is taken."""
    first = Text(f"{found['url']}  ")
    first.append(str(found["state"]), STYLES.get(str(found["state"]), "bold"))
    if found["reason"]:
        first.append(f": {found['reason']}")
    gear = f", gear {found['gear']}" if found["gear"] else ""
    first.append(f"  mode {found['mode']}{gear}")
    restarts = f", {found['draft_restarts']:.0f} restarts" if found["draft_restarts"] else ""
    parts = [
        f"running {_cell(found['running'], _whole)}",
        f"waiting {_cell(found['waiting'], _whole)}",
        f"draft {found['draft'] or NOTHING}{restarts}",
        *(f"KV of {side} {_cell(use, lambda value: f'{value:.0%}')}" for side, use in found["kv_use"].items()),
    ]
    return [first, Text("   ".join(parts))]


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _cell(value: Any, write: Callable[[float], str]) -> str:
    if isinstance(value, Mapping):
        return " / ".join(_cell(each, write) for each in value.values())
    return NOTHING if value is None else write(value)
