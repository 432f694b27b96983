"""`saguaro doctor`: what this machine has, whether a pair of models fits, and what would run where.

Exit status 1 when a given pair does not fit into memory; what cannot work at all is refused like anywhere (2).
Must not know: how facts are found (doctor_facts.py). Tests: tests/cli/test_doctor.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from saguaro.cli.checks import check_engine
from saguaro.cli.doctor_facts import Fact, fits, kernel_facts, machine_facts, model_facts, plan_facts, version_facts
from saguaro.cli.doctor_pair import pair_facts
from saguaro.cli.options import add_engine_flags, engine_config
from saguaro.cli.parser import Parser
from saguaro.errors import ConfigError

GIGA = 1e9


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--no-measure", action="store_true", help="do not measure how fast memory is read")
    add_engine_flags(parser, target_required=False)


def run(options: argparse.Namespace) -> int:
    """Report."""
    if getattr(options, "draft", None) is not None and not hasattr(options, "target"):
        raise ConfigError("--draft needs --target.")
    checked = check_engine(engine_config(options)) if hasattr(options, "target") else None
    sections: dict[str, list[Fact]] = {
        "machine": list(machine_facts(measure=not options.no_measure)),
        "kernels": list(kernel_facts()),
        "models": list(model_facts()),
        "versions": list(version_facts()),
    }
    good = True
    if checked is not None:
        sections["pair"] = [
            *plan_facts(checked.plan, bandwidth=_bandwidth(sections["machine"])),
            *pair_facts(checked.plan),
        ]
        good = fits(checked.plan)
    if options.json:
        print(json.dumps({name: [vars(fact) for fact in facts] for name, facts in sections.items()}, indent=1))
    else:
        show(sections)
    return 0 if good else 1


def show(sections: dict[str, list[Fact]]) -> None:
    """A table a section."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console.width = 160
    for name, facts in sections.items():
        table = Table(title=name, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for head in ("", "", "", "how it is known"):
            table.add_column(head, overflow="fold")
        for fact in facts:
            table.add_row(fact.name, fact.shown, fact.unit, f"[dim]{fact.source}[/dim]")
        console.print(table)
        console.print()


def _bandwidth(facts: Sequence[Fact]) -> float | None:
    """Bytes a second that one core reads, where it was measured."""
    return next((fact.value * GIGA for fact in facts if fact.name == "one core reads"), None)
