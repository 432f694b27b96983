"""Shared noise against the paper's `rejection` with Saguaro sampling, over C and fan-out, at temperatures above 0.

    python benchmarks/sampling.py --target T --draft D --name qwen [--poor DRAFT] [--temperatures 1,0.7]

One engine a kind of verification; settings take turns prompt by prompt. A first pass looks at every (C, F); the best
of `rejection` and shared noise then run again, in turns, `--repeats` times. Writes results/sampling-NAME.json.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from lanes import Lane, keep, measure, numbers, pair, parser, prompts, reals, seeded, speed, summary, text

from saguaro import LLM

CONSTANTS = (1.0, 0.7, 0.5, 0.3, 0.1)


def lanes(options: argparse.Namespace) -> tuple[list[Lane], list[Lane]]:
    """Settings of shared noise and of rejection."""
    shared = [Lane("shared noise", "shared_noise", "ssd")]
    rejection = []
    for fan_out in options.fan_outs:
        listed = [fan_out] * (options.lookahead + 1)
        shared.append(Lane(f"shared noise, F {fan_out}", "shared_noise", "ssd", {"fan_out": listed}))
        for c in CONSTANTS:
            changes = {"fan_out": listed, "saguaro_c": c}
            rejection.append(Lane(f"rejection, C {c:g}, F {fan_out}", "rejection", "ssd", changes, exact=False))
    shared[0] = Lane(shared[0].name, "shared_noise", "ssd", {"fan_out": "ranked", "budget": options.budget})
    return shared, rejection


def one_temperature(options: argparse.Namespace, temperature: float, llms: dict[str, LLM]) -> dict[str, Any]:
    """The survey, then the best of each kind again."""
    params = seeded(temperature, options.max_tokens)
    shared, rejection = lanes(options)
    texts = prompts(options.prompts, options.num_prompts)
    survey = summary(measure(llms, [*shared, *rejection], texts, params=params))
    speeds = {row["lane"]: row["total_tokens_per_second"] for row in survey}
    best = [max(kind, key=lambda lane: speeds[lane.name]) for kind in (shared, rejection)]
    again = measure(llms, best, texts, params=params, repeats=options.repeats)
    return {"survey": survey, "runs": again, "best": summary(again, against=best[1].name)}


def main() -> None:
    known = parser(__doc__ or "", num_prompts=4, max_tokens=48)
    known.add_argument("--name", required=True, help="of the pair, for the record")
    known.add_argument("--lookahead", type=int, default=4)
    known.add_argument("--budget", type=int, default=6)
    known.add_argument("--fan-outs", type=numbers, default=[1, 2])
    known.add_argument("--temperatures", type=reals, default=[1.0, 0.7])
    known.add_argument("--repeats", type=int, default=3)
    options = known.parse_args()
    with ExitStack() as stack:
        llms = {
            kind: stack.enter_context(
                LLM(
                    options.target, options.draft, mode="ssd", dtype=options.dtype, verification=kind,
                    lookahead=options.lookahead, budget=options.budget, target_device="cpu:0", draft_device="cpu:1",
                    max_batch=1, max_model_len=1024,
                )
            )
            for kind in ("shared_noise", "rejection")
        }  # fmt: skip
        parts = {f"{t:g}": one_temperature(options, t, llms) for t in options.temperatures}
    columns = ["temperature", "setting", "tokens/s", "× best rejection", "hit rate", "acceptance", "tokens a round"]
    rows = []
    for temperature, part in parts.items():
        for row in part["best"]:
            names = ("ratio", "hit_rate", "acceptance_rate", "acceptance_length")
            rows.append([temperature, row["lane"], speed(row), *(text(row[name]) for name in names)])
    note = (
        f"{pair(options)}; the best of "
        f"{len(CONSTANTS) * len(options.fan_outs)} settings of rejection and of {1 + len(options.fan_outs)} of shared "
        f"noise; {options.num_prompts} prompts × {options.max_tokens} tokens, {options.repeats} repeats in turns"
    )
    keep(f"sampling-{options.name}", columns, rows, note, parts=parts)


if __name__ == "__main__":
    main()
