"""What `saguaro train-draft` shows: stages with bars, a line for each point of the curve, the curve at the end.

Must not know: what is done. Tests: tests/cli/test_train_draft.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.cli.bench_view import bar
from saguaro.training.settings import PARTS, TRAINING

if TYPE_CHECKING:
    from saguaro.training.loop import Report


class View:
    """A bar on a terminal, lines elsewhere; all on standard error but the result."""

    def __init__(self, *, on_training: Callable[[], None]) -> None:
        self._bar = bar()
        self._on_training = on_training
        self._task = self._bar.add_task("", total=1)

    def __enter__(self) -> View:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def stage(self, name: str, total: int) -> None:
        """A stage begins."""
        self._line(name)
        self._bar.reset(self._task, total=total, description=name)
        if name == TRAINING:
            self._on_training()

    def advance(self, parts: int, note: str) -> None:
        """Parts of a stage are done."""
        self._bar.update(self._task, advance=parts, description=note)

    def step(self, report: Report) -> None:
        """A step of the training."""
        steps = f"step {report.step}" if report.steps is None else f"step {report.step}/{report.steps}"
        text = f"{steps}, loss {report.loss:.3f}, {report.tokens_per_second:,.0f} tokens/s"
        self._bar.update(self._task, completed=int(report.progress * PARTS), description=text)

    def point(self, point: Mapping[str, Any]) -> None:
        """The curve was measured."""
        loss = "" if point["loss"] is None else f", loss {point['loss']:.3f}"
        greedy, sampled = (point[name]["by_position"][0] for name in ("temperature_0", "temperature_1"))
        self._line(
            f"step {point['step']}{loss}: acceptance {_share(greedy)} at temperature 0, {_share(sampled)} at 1 "
            f"({point['seconds']:.0f} s)"
        )

    def result(self, record: Mapping[str, Any], out: Path) -> None:
        """The curve before and after, and what to do with the draft."""
        from rich.console import Console
        from rich.table import Table

        first, last = record["curve"][0], record["curve"][-1]
        count = len(last["temperature_0"]["by_position"])
        table = Table("acceptance by position", *(str(i + 1) for i in range(count)))
        for label, point in (("before", first), ("after", last)):
            for temperature in (0, 1):
                shares = point[f"temperature_{temperature}"]["by_position"]
                table.add_row(f"{label}, temperature {temperature}", *map(_share, shares))
        console = Console()
        console.print(table)
        text = f"draft: {out}; use it with --target {record['target']} --draft {out}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _line(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
