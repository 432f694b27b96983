"""`saguaro plan`: what AR, SD and SSD promise for models, hardware and traffic, before anything is bought.

Must not know: how numbers come about (planner/). Tests: tests/cli/test_plan.py.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saguaro.cli.parser import Parser, at_least_one, number
from saguaro.errors import ConfigError

DEFAULT_ACCEPTANCE = 0.8


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    group = parser.add_argument_group("what to run")
    group.add_argument(
        "--target", required=True, metavar="MODEL", help="a config.json, its folder, or a name such as llama-3.1-70b"
    )
    group.add_argument("--draft", metavar="MODEL", help="the same; without one only AR is looked at")
    group.add_argument("--dtype", default="bfloat16", help="of the target's weights (default bfloat16)")
    group.add_argument("--draft-dtype", help="of the draft's weights (default: the target's)")
    group = parser.add_argument_group("on what")
    group.add_argument("--hardware", default="h100", metavar="NAME", help="h100, h200, b200, a100, l4 or cpu-core")
    group.add_argument(
        "--placement", default=None, metavar="T+D", help="devices of target and draft (default: as few as fit, and 1)"
    )
    group.add_argument("--dollars", type=number, metavar="D", help="an hour of one device (default: an assumption)")
    group.add_argument("--link", type=number, metavar="MS", help="a message between target and draft, milliseconds")
    group = parser.add_argument_group("for what traffic")
    group.add_argument("--batch", type=at_least_one, default=1, help="requests at once (default 1)")
    group.add_argument("--prompt-tokens", type=at_least_one, default=512, metavar="N", help="(default 512)")
    group.add_argument("--output-tokens", type=at_least_one, default=512, metavar="N", help="(default 512)")
    group.add_argument("--temperature", type=number, default=0.0, help="chooses the published hit curves (default 0)")
    group = parser.add_argument_group("with what is known of the pair")
    group.add_argument("--acceptance", type=number, metavar="A", help=f"of draft tokens (default {DEFAULT_ACCEPTANCE})")
    group.add_argument("--profile", metavar="FILE", help="acceptance and hit curves of a `saguaro calibrate`")
    group.add_argument("--measured-times", action="store_true", help="take step times from --profile, too")
    group.add_argument("--lookahead", type=at_least_one, metavar="K", help="fixed (default: the best up to 8)")
    group.add_argument("--budget", type=at_least_one, metavar="B", help="fixed (default: the best)")
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="everything, with the formula of each number")
    group.add_argument("--plot", type=Path, metavar="FILE", help="a .svg, .png or .pdf (extra `figures`)")


def run(options: argparse.Namespace) -> int:
    """Answer the question."""
    if options.plot is not None and not options.plot.resolve().parent.is_dir():
        raise ConfigError(f"the folder of {options.plot} does not exist; make it first.")
    from saguaro.planner.advice import plan

    found = plan(_question(options))
    if options.plot is not None:
        from saguaro.planner.picture import draw

        draw(found, options.plot)
    if options.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _show(found)
        if options.plot is not None:
            print(f"drawn: {options.plot}")
    return 0


def _question(options: argparse.Namespace):  # type: ignore[no-untyped-def]  # imported late: planner.question.Question
    from saguaro.planner.question import Question, Traffic, profile_laws, published_laws
    from saguaro.profile import load
    from saguaro.simulate.hardware import open_hardware
    from saguaro.simulate.shapes import bytes_of, open_shape

    hardware = open_hardware(options.hardware)
    target = open_shape(options.target)
    draft = open_shape(options.draft) if options.draft else None
    draft_dtype = options.draft_dtype or options.dtype
    for dtype in (options.dtype, draft_dtype):
        bytes_of(dtype)
    profile = load(options.profile) if options.profile else None
    if options.measured_times and profile is None:
        raise ConfigError("--measured-times needs the profile that holds them; give --profile.")
    if profile is not None and options.acceptance is not None:
        raise ConfigError("--profile and --acceptance both say how often the draft is right; give one of them.")
    if options.acceptance is not None and not 0 <= options.acceptance <= 1:
        raise ConfigError(f"an acceptance rate lies in 0 ... 1, not at {options.acceptance}.")
    acceptance = DEFAULT_ACCEPTANCE if options.acceptance is None else options.acceptance
    laws = profile_laws(profile, options.profile) if profile else published_laws(options.temperature, acceptance)
    asked = {
        "target": target, "draft": draft, "hardware": hardware, "laws": laws, "target_dtype": options.dtype,
        "draft_dtype": draft_dtype, "lookahead": options.lookahead, "budget": options.budget,
        "traffic": Traffic(options.batch, options.prompt_tokens, options.output_tokens),
        "dollars": hardware.dollars if options.dollars is None else options.dollars,
        "times": profile.times if options.measured_times and profile else None,
        "link": None if options.link is None else options.link / 1e3,
    }  # fmt: skip
    placed = _placement(options.placement)
    if placed is None:
        one = Question(target_devices=1, draft_devices=0, **asked)
        fitting = [size for size in (1, 2, 4, 8, 16) if one.fits(target, options.dtype, size)]
        if not fitting:
            raise ConfigError(
                f"{target.name} does not fit on 16 x {hardware.name}; name a placement or a smaller dtype."
            )
        placed = (fitting[0], 1 if draft else 0)
    return Question(target_devices=placed[0], draft_devices=placed[1], **asked)


def _placement(text: str | None) -> tuple[int, int] | None:
    """4+1 as two numbers; 4 alone leaves the draft without a device of its own."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)(?:\+(\d+))?", text)
    if match is None or int(match[1]) < 1:
        raise ConfigError(f"a placement is the devices of target and draft, such as 4+1, not {text!r}.")
    return int(match[1]), int(match[2] or 0)


def _show(plan: Mapping[str, Any]) -> None:
    """The table and what follows from it."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console()
    traffic, hardware = plan["traffic"], plan["hardware"]
    models = " with ".join(name for name in (plan["target"], plan["draft"]) if name)
    console.print(
        f"{models} on {hardware['name']} ({hardware['source']}); {traffic['batch']} at once, prompts of "
        f"{traffic['prompt']} tokens, outputs of {traffic['output']}; {plan['laws']}",
        markup=False, highlight=False,
    )  # fmt: skip
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), collapse_padding=True)
    for name in ("", "K", "B", "fallback", "tokens/s", "range", "a device", "$/million", "hits"):
        table.add_column(name, justify="left" if name in ("", "fallback") else "right", no_wrap=True)
    group = ""
    for row in plan["rows"]:
        if row["group"] != group:
            group = row["group"]
            table.add_section()
            table.add_row(f"[bold]{group}[/bold]")
        cost = "–" if row["dollars_per_million"] is None else f"{row['dollars_per_million']:.2f}"
        table.add_row(
            f"{row['mode'].upper()} on {row['placement']}", str(row["lookahead"] or "–"), str(row["budget"] or "–"),
            row["fallback"] or "–", f"{row['tokens_per_second']:.1f}", f"{row['low']:.0f}–{row['high']:.0f}",
            f"{row['tokens_per_second_per_device']:.1f}", cost,
            "–" if row["hit_rate"] is None else f"{row['hit_rate']:.2f}",
        )  # fmt: skip
    console.print(table)
    lines = [plan["verdict"]]
    for fallback, even in (plan["break_even_hit_rate"] or {}).items():
        when = "is never" if even is None else f"is, from a hit rate of {even:.2f} on,"
        lines.append(f"SSD with fallback {fallback} {when} as fast as the best SD on as many devices.")
    gains = ", ".join(f"{each['what']} {each['gain']:+.1%}" for each in plan["improve"])
    lines.append(f"What a tenth better would gain: {gains}.")
    lines.append(f"First token after {plan['rows'][0]['first_token_ms']:.0f} ms (AR on the target's devices).")
    lines += [f"Left out: {why}." for why in plan["left_out"]]
    lines.append(f"Range: one assumption moved at a time; --json names them, and every formula. {plan['assumed']}.")
    for line in lines:
        console.print(line, markup=False, highlight=False)
