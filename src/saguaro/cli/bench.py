"""`saguaro bench`: measure AR, SD and SSD on a prompt file, print a table, write a record.

Must not know: how runs are made (bench/) or what numbers mean (bench/figures.py). Tests: tests/cli/test_bench.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.bench.settings import MODES, BenchSettings, Lane, lanes
from saguaro.cli.checks import check_engine, check_prompts
from saguaro.cli.options import add_engine_flags, engine_options, folders
from saguaro.cli.parser import Parser, at_least_one, names, numbers, whole, wholes
from saguaro.config import EngineConfig
from saguaro.errors import ConfigError
from saguaro.workloads import dataset_name, read_prompts

if TYPE_CHECKING:
    from rich.progress import Progress

    from saguaro.bench.run import Setting
    from saguaro.engine.resolve import Plan

PIPE_WIDTH = 160  # columns of the table where there is no terminal


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    group = parser.add_argument_group("measuring")
    group.add_argument("--prompts", required=True, metavar="FILE", help="JSON Lines with a field `prompt`")
    group.add_argument("--num-prompts", type=at_least_one, default=16, help="the first N prompts (default 16)")
    group.add_argument("--modes", type=names, default=list(MODES), help="of ar,sd,ssd (default all)")
    group.add_argument("--temperature", type=numbers, default=[0.0], help="one or several, by comma (default 0)")
    group.add_argument("--batch", type=wholes, default=[1], help="rows at once; one or several, by comma (default 1)")
    group.add_argument(
        "--repeats", type=at_least_one, default=3, help="passes, modes interleaved within each (default 3)"
    )
    group.add_argument("--max-tokens", type=at_least_one, default=128, help="tokens of each output (default 128)")
    group.add_argument("--seed", type=whole, default=0, help="prompt i has the key seed + i (default 0)")
    group.add_argument("--respect-eos", action="store_true", help="end outputs at the model's stop tokens")
    group.add_argument("--json", type=Path, metavar="OUT", help="write the record here, after every run")
    group.add_argument("--bandwidth", action="store_true", help="measure how fast cores read memory, for the record")
    group.add_argument(
        "--both-verifications", action="store_true", help="also SD and SSD with the other kind of verification"
    )
    placement = parser.add_argument_group("placement").add_mutually_exclusive_group()
    placement.add_argument(
        "--paper-placement",
        action="store_true",
        help="AR and SD on the target's device, SSD adds the draft's (default)",
    )
    placement.add_argument("--equal-hardware", action="store_true", help="also AR and SD on every device that SSD has")
    add_engine_flags(parser, without=("mode",))


def run(options: argparse.Namespace) -> int:
    """Measure; exit status 1 when outputs that must be equal are not."""
    settings = BenchSettings(
        engine=engine_options(options),
        prompts=read_prompts(options.prompts, options.num_prompts),
        dataset=dataset_name(options.prompts),
        modes=tuple(options.modes),
        temperatures=tuple(options.temperature),
        batches=tuple(options.batch),
        repeats=options.repeats,
        max_tokens=options.max_tokens,
        seed=options.seed,
        ignore_eos=not options.respect_eos,
        equal_hardware=options.equal_hardware,
        both_verifications=options.both_verifications,
    )
    if options.json is not None and not options.json.resolve().parent.is_dir():
        raise ConfigError(f"the folder of {options.json} does not exist; make it first.")
    checked = [check_engine(EngineConfig.from_options(**lane.options)) for lane in lanes(settings)]
    check_prompts(checked[0], list(settings.prompts))

    from saguaro import LLM
    from saguaro.bench.machine import read_alone_and_together
    from saguaro.bench.run import equal_everywhere, groups
    from saguaro.bench.run import run as measure
    from saguaro.records import write_record

    def on_run(record: dict[str, Any], row: dict[str, Any]) -> None:
        if options.json is not None:
            write_record(record, options.json)
        bar.console.print(_progress(row, settings.repeats), markup=False, highlight=False)

    facts = {"read_bytes_per_second": read_alone_and_together()} if options.bandwidth else {}
    with _bar() as bar:
        task = bar.add_task("loading", total=groups(settings))

        def on_group(setting: Setting, lane: Lane) -> None:
            bar.update(task, advance=1, description=f"repeat {setting.repeat + 1}, {lane.name}")

        record = measure(settings, open_llm=LLM, on_run=on_run, on_group=on_group, facts=facts)
    record["config"]["weight_bytes_per_pass"] = weight_bytes([each.plan for each in checked])
    if options.json is not None:
        write_record(record, options.json)
    show(record)
    return 0 if equal_everywhere(record) else 1


def _bar() -> Progress:
    """A bar on a terminal; elsewhere the lines alone."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, soft_wrap=True)
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def weight_bytes(plans: Sequence[Plan]) -> dict[str, int]:
    """Bytes that a pass of each model reads, by the formula of `bench.sizes`."""
    from saguaro.bench.sizes import sizes

    hub_cache = folders().get("hub_cache")
    found = {}
    for plan in plans:
        for role, placement in (("target", plan.target), ("draft", plan.draft)):
            if placement is not None:
                found[role] = sizes(placement.source, placement.dtype, hub_cache=hub_cache).streamed_bytes
    return found


def show(record: dict[str, Any]) -> None:
    """The summary table and what the comparison of outputs said."""
    from rich.console import Console
    from rich.table import Table

    from saguaro.records import describe, summarise

    table = Table(title=describe(record), title_justify="left", caption_justify="left")
    heads = (
        "", "devices", "T", "batch", "tokens/s", "× AR", "× SD", "tokens a round", "hit rate", "depth", "verify ms",
        "wait ms", "first token ms", "of bound",
    )  # fmt: skip
    for head in heads:
        table.add_column(head, justify="left" if head in ("", "devices") else "right")
    for row in summarise(record):
        speed = f"{row.tokens_per_second:.1f} ({row.low:.1f}–{row.high:.1f})"
        cells = (
            (row.speedup_ar, 2), (row.speedup_sd, 2), (row.acceptance_length, 2), (row.hit_rate, 2), (row.depth, 2),
            (row.verify_ms, 1), (row.target_wait_ms, 1), (row.ttft_ms, 0), (row.bound_share, 2),
        )  # fmt: skip
        numbers_ = ["–" if value is None else f"{value:.{digits}f}" for value, digits in cells]
        table.add_row(row.label, row.devices, f"{row.temperature:g}", str(row.batch), speed, *numbers_)
    console = Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(table)
    console.print(verdict(record))


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


def _progress(row: dict[str, Any], repeats: int) -> str:
    where = f"repeat {row['repeat'] + 1}/{repeats}, T {row['temperature']:g}, batch {row['batch']}"
    hits = "" if row["hit_rate"] is None else f", hit rate {row['hit_rate']:.2f}"
    length = "" if row["acceptance_length"] is None else f", {row['acceptance_length']:.2f} tokens a round"
    return f"{where}: {row['mode']} on {row['devices']}: {row['tokens_per_second']:.1f} tokens/s{length}{hits}"
