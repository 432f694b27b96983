"""`saguaro figures`: the latency-throughput frontier of a record, as a picture.

Must not know: what numbers mean (bench/frontier.py). Tests: tests/cli/test_figures.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from saguaro.cli.parser import Parser
from saguaro.errors import ConfigError


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    parser.add_argument("record", type=Path, metavar="RECORD", help="what `saguaro bench --json` wrote")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="a .png, .svg or .pdf (default: the record's name with .png)"
    )
    parser.add_argument(
        "--per-device", action="store_true", help="divide the total by the cores or accelerators that a mode uses"
    )
    parser.add_argument("--title", metavar="TEXT", help="instead of what the record says of itself")


def run(options: argparse.Namespace) -> int:
    """Draw the picture and say where it is."""
    out = options.out or options.record.with_suffix(".png")
    if not out.resolve().parent.is_dir():
        raise ConfigError(f"the folder of {out} does not exist; make it first.")

    from saguaro.bench.frontier import draw
    from saguaro.records import read_record

    draw(read_record(options.record), out, per_device=options.per_device, title=options.title)
    print(f"drawn: {out}")
    return 0
