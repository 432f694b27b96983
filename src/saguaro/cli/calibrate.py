"""`saguaro calibrate`: measure a pair of models, write its profile and, if asked, a report.

Must not know: what is measured (calibrate/). Tests: tests/cli/test_calibrate.py.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.calibrate.recording import CANDIDATES, LOOKAHEAD, ROWS, recording_options
from saguaro.cli.bench_view import bar
from saguaro.cli.checks import check_engine, check_prompts
from saguaro.cli.options import add_engine_flags, engine_options, folders
from saguaro.cli.parser import Parser, at_least_one, number, numbers, whole
from saguaro.config import EngineConfig
from saguaro.errors import ConfigError
from saguaro.workloads import dataset_name, read_prompts

if TYPE_CHECKING:
    from saguaro.profile import Profile

DECIDED = (
    "mode", "lookahead", "budget", "fan_out", "verification", "saguaro_c", "fallback", "pacing", "max_batch", "profile",
    "observe",
)  # fmt: skip


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    group = parser.add_argument_group("calibrating")
    group.add_argument(
        "--prompts", required=True, nargs="+", metavar="FILE", help="one or several JSON Lines with a field `prompt`"
    )
    group.add_argument("--num-prompts", type=at_least_one, default=8, help="the first N of each file (default 8)")
    group.add_argument(
        "--temperatures", type=numbers, default=[0.0, 0.7, 1.0], metavar="T,...", help="by comma (default 0,0.7,1)"
    )
    group.add_argument("--max-tokens", type=at_least_one, default=64, help="tokens of each output (default 64)")
    group.add_argument(
        "--max-lookahead", type=at_least_one, default=LOOKAHEAD, metavar="K", help="largest K tried (default 6)"
    )
    group.add_argument(
        "--seconds", type=number, default=6.0, metavar="S", help="of each of three measurements of times (default 6)"
    )
    group.add_argument("--seed", type=whole, default=0, help="prompt i has the noise of seed + i (default 0)")
    group.add_argument("--out", type=Path, required=True, metavar="FILE", help="the profile, for --profile FILE")
    group.add_argument("--report", type=Path, metavar="FOLDER", help="write a page with pictures (extra `figures`)")
    group.add_argument("--check", action="store_true", help="also run the best settings for real, for some seconds")
    group.add_argument(
        "--fresh", action="store_true", help="begin anew where an earlier run of the same command was stopped"
    )
    add_engine_flags(parser, without=DECIDED)


def run(options: argparse.Namespace) -> int:
    """Measure what is not measured yet."""
    engine = engine_options(options)
    if engine.get("draft") is None:
        raise ConfigError("a calibration is made of a pair; give --draft.")
    if not options.out.resolve().parent.is_dir():
        raise ConfigError(f"the folder of {options.out} does not exist; make it first.")
    if options.out.is_dir():
        raise ConfigError(f"{options.out} is a folder; --out names the file of the profile.")
    if options.report is not None and options.report.exists() and not options.report.is_dir():
        raise ConfigError(f"{options.report} is a file; --report names a folder.")
    if not 1 <= options.max_lookahead <= 8:
        raise ConfigError(f"--max-lookahead must be in 1 ... 8, not {options.max_lookahead}.")
    recording = recording_options(engine, lookahead=options.max_lookahead, candidates=CANDIDATES, rows=ROWS)
    checked = check_engine(EngineConfig.from_options(**recording))
    prompts = [prompt for path in options.prompts for prompt in read_prompts(path, options.num_prompts)]
    check_prompts(checked, list(prompts))
    if options.report is not None:
        from saguaro.calibrate.report import check_drawing

        check_drawing()
    profile = _measured(options, engine, prompts)
    if options.report is not None:
        from saguaro.calibrate.report import write_report

        print(f"report: {write_report(profile, options.report)}")
    _show(profile, options.out)
    return 0


def _measured(options: argparse.Namespace, engine: dict[str, Any], prompts: Sequence[str]) -> Profile:
    """The profile, written; stages that an earlier run has left are not measured again."""
    from saguaro import LLM
    from saguaro.bench.machine import machine, versions
    from saguaro.calibrate.run import Calibrating, CalibrationSettings, key
    from saguaro.calibrate.stages import Stages
    from saguaro.choices import open_intake

    settings = CalibrationSettings(
        engine=engine,
        prompts=prompts,
        datasets=tuple(dataset_name(path) for path in options.prompts),
        temperatures=tuple(options.temperatures),
        max_tokens=options.max_tokens,
        lookahead=options.max_lookahead,
        seconds=options.seconds,
        seed=options.seed,
        check=options.check,
    )
    folder = options.out.with_name(options.out.name + ".stages")
    if options.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    places = {"cache_dir": None, "hub_cache": None, **folders()}
    recording = settings.recording()
    plan = open_intake(recording.pop("target"), recording.pop("draft"), options=recording, **places).plan
    stages = Stages(folder, key(settings, plan))
    with bar() as live:
        task = live.add_task("opening", total=1)

        def on_stage(name: str, steps: int) -> None:
            live.console.print(name, markup=False, highlight=False)
            live.reset(task, total=steps, description=name)

        calibrating = Calibrating(
            settings,
            plan,
            stages,
            partial(LLM, **folders()),
            on_stage=on_stage,
            on_steps=lambda count: live.advance(task, count),
            facts={"machine": machine(), "versions": versions()},
        )
        profile = calibrating.run(options.out)
    stages.drop()
    return profile


def _show(profile: Profile, out: Path) -> None:
    """The best settings, and how to use them."""
    from rich.console import Console
    from rich.table import Table

    table = Table("requests at once", "mode", "K", "B", "fan-out", "tokens/s in all")
    for each in sorted(profile.best, key=lambda one: (one.batch, -one.tokens_per_second)):
        own = (str(each.lookahead or "–"), str(each.budget or "–"), each.fan_out if each.mode == "ssd" else "–")
        table.add_row(str(each.batch), each.mode, *own, f"{each.tokens_per_second:.1f}")
    console = Console()
    console.print(table)
    console.print(f"profile: {out}; use it with --profile {out}", markup=False, highlight=False, soft_wrap=True)
