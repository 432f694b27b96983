"""`saguaro bench`: measure AR, SD and SSD on a prompt file under one or many requests at once, write a record.

Must not know: how runs are made (bench/), what numbers mean (bench/figures.py), or how they are shown (bench_view).
Tests: tests/cli/test_bench.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.bench.settings import MODES, WAVES, BenchSettings, Lane, Setting, lanes
from saguaro.cli.bench_view import bar, progress, show
from saguaro.cli.checks import check_engine, check_prompts
from saguaro.cli.options import add_engine_flags, engine_options, folders
from saguaro.cli.parser import Parser, at_least_one, names, number, numbers, whole, wholes
from saguaro.config import EngineConfig
from saguaro.errors import ConfigError
from saguaro.workloads import dataset_name, read_prompts

if TYPE_CHECKING:
    from saguaro.engine.resolve import Plan


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    group = parser.add_argument_group("measuring")
    group.add_argument("--prompts", required=True, metavar="FILE", help="JSON Lines with a field `prompt`")
    group.add_argument("--num-prompts", type=at_least_one, default=16, help="the first N prompts (default 16)")
    group.add_argument("--modes", type=names, default=list(MODES), help="of ar,sd,ssd,auto (default ar,sd,ssd)")
    group.add_argument("--temperature", type=numbers, default=[0.0], help="one or several, by comma (default 0)")
    group.add_argument(
        "--repeats", type=at_least_one, default=3, help="passes, modes interleaved within each (default 3)"
    )
    group.add_argument("--max-tokens", type=at_least_one, default=128, help="tokens of each output (default 128)")
    group.add_argument(
        "--seed", type=whole, default=0, help="request i has the key seed + i; also the key of arrivals (default 0)"
    )
    group.add_argument("--respect-eos", action="store_true", help="end outputs at the model's stop tokens")
    group.add_argument("--json", type=Path, metavar="OUT", help="write the record here, after every run")
    group.add_argument("--bandwidth", action="store_true", help="measure how fast cores read memory, for the record")
    group.add_argument(
        "--both-verifications", action="store_true", help="also SD and SSD with the other kind of verification"
    )
    _add_load_flags(parser)
    placement = parser.add_argument_group("placement").add_mutually_exclusive_group()
    placement.add_argument(
        "--paper-placement",
        action="store_true",
        help="AR and SD on the target's device, SSD adds the draft's (default)",
    )
    placement.add_argument(
        "--equal-hardware", action="store_true", help="also AR, SD and auto on every device that SSD has"
    )
    add_engine_flags(parser, without=("mode",))


def _add_load_flags(parser: Parser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument(
        "--batch",
        type=wholes,
        metavar="N,...",
        help="closed loop: keep exactly N requests running; one or several, by comma (default 1)",
    )
    group.add_argument(
        "--rate",
        type=numbers,
        metavar="R,...",
        help="open loop: R requests a second arrive by chance (Poisson); one or several, by comma",
    )
    group.add_argument(
        "--num-requests",
        type=at_least_one,
        metavar="N",
        help="requests of a run; prompts repeat, with other seeds, when there are too few (default: the number of "
        f"prompts, in a closed loop of several at least {WAVES} times the batch)",
    )
    group.add_argument("--seconds", type=number, metavar="S", help="with --rate: requests arrive for so long")


def run(options: argparse.Namespace) -> int:
    """Measure; exit status 1 when outputs that must be equal are not."""
    settings = BenchSettings(
        engine=engine_options(options),
        prompts=read_prompts(options.prompts, options.num_prompts),
        dataset=dataset_name(options.prompts),
        modes=tuple(options.modes),
        temperatures=tuple(options.temperature),
        batches=tuple(options.batch or ()),
        rates=tuple(options.rate or ()),
        num_requests=options.num_requests,
        seconds=options.seconds,
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
    from saguaro.bench.equality import equal_everywhere
    from saguaro.bench.machine import read_alone_and_together
    from saguaro.bench.run import run as measure
    from saguaro.bench.run import total_requests
    from saguaro.records import write_record

    def on_run(record: dict[str, Any], row: dict[str, Any]) -> None:
        if options.json is not None:
            write_record(record, options.json)
        live.console.print(progress(row, settings.repeats), markup=False, highlight=False)

    facts = {"read_bytes_per_second": read_alone_and_together()} if options.bandwidth else {}
    with bar() as live:
        task = live.add_task("loading", total=total_requests(settings))

        def on_end(setting: Setting, lane: Lane) -> None:
            load = f"batch {setting.batch}" if setting.rate is None else f"{setting.rate:g} requests/s"
            live.update(task, advance=1, description=f"repeat {setting.repeat + 1}, {load}, {lane.name}")

        record = measure(settings, open_llm=LLM, on_run=on_run, on_end=on_end, facts=facts)
    record["config"]["weight_bytes_per_pass"] = weight_bytes([each.plan for each in checked])
    if options.json is not None:
        write_record(record, options.json)
    show(record)
    return 0 if equal_everywhere(record) else 1


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
