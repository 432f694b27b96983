"""`saguaro figures`: the latency-throughput frontier of a record, or the paper's figures, simulated and measured.

Must not know: what numbers mean (bench/frontier.py, figures/). Tests: tests/cli/test_figures.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from saguaro.cli.parser import Parser
from saguaro.errors import ConfigError


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    parser.add_argument("record", type=Path, nargs="?", metavar="RECORD", help="what `saguaro bench --json` wrote")
    parser.add_argument(
        "--paper",
        type=Path,
        metavar="FOLDER",
        help="Figures 3 to 7 of the paper, published and simulated, into a folder",
    )
    parser.add_argument(
        "--records",
        type=Path,
        metavar="FOLDER",
        help="with --paper: the same figures from the records of a folder, beside them (measured-3 to measured-7)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="a .png, .svg or .pdf (default: the record's name with .png)"
    )
    parser.add_argument(
        "--per-device", action="store_true", help="divide the total by the cores or accelerators that a mode uses"
    )
    parser.add_argument("--title", metavar="TEXT", help="instead of what the record says of itself")


def run(options: argparse.Namespace) -> int:
    """Draw the picture and say where it is."""
    if options.paper is not None:
        return _paper(options)
    if options.records is not None:
        raise ConfigError("--records names what --paper draws; give --paper FOLDER, too.")
    if options.record is None:
        raise ConfigError(
            "the following arguments are required: RECORD, or --paper FOLDER; see `saguaro figures --help`."
        )
    out = options.out or options.record.with_suffix(".png")
    if not out.resolve().parent.is_dir():
        raise ConfigError(f"the folder of {out} does not exist; make it first.")

    from saguaro.bench.frontier import draw
    from saguaro.records import read_record

    draw(read_record(options.record), out, per_device=options.per_device, title=options.title)
    print(f"drawn: {out}")
    return 0


def _paper(options: argparse.Namespace) -> int:
    if options.record is not None or options.out is not None or options.per_device or options.title:
        raise ConfigError("--paper draws the paper's figures and takes no RECORD, --out, --per-device or --title.")
    if options.paper.exists() and not options.paper.is_dir():
        raise ConfigError(f"{options.paper} is a file; --paper names a folder.")

    if options.records is not None and not options.records.is_dir():
        raise ConfigError(f"--records {options.records} is no folder; it names one with records.")

    from saguaro.figures.draw import draw_all
    from saguaro.figures.measured import measured
    from saguaro.figures.series import every

    own, missing = measured(options.records) if options.records is not None else ([], [])
    for path in draw_all([*every(), *own], options.paper):
        print(f"written: {path}")
    for words in missing:
        print(f"not drawn: {words}")
    return 0
