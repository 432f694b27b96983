"""Proposal trees against chains in SD, in turns, and what the cost model would have chosen.

    python benchmarks/trees.py --target T --draft D --name qwen [--device cpu:0] [--temperatures 0,1]

Both models on one device. A first pass with one level tells how often the target's token is the draft's first guess,
its second, ...; from that and the measured step times `theory.tree_rates` names the shape that it expects to be best.
Then chains, trees, the engine's own choice (`tree="auto"`) and the model's take turns prompt by prompt, `--repeats`
times.
Every text must be that of AR. Writes results/trees-NAME.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from lanes import Lane, keep, measure, numbers, pair, parser, prompts, reals, seeded, speed, summary, text

from saguaro import LLM
from saguaro.theory.rates import StepTimes
from saguaro.theory.tree_rates import ProposalChoice, best_chain, best_proposal

RANKS = 4
FIXED = {"mode": "sd", "adapt_depth": False}
ADAPTS = {"mode": "sd", "adapt_depth": True}
WITHIN = 0.97


def shape(text_: str) -> list[tuple[int, int]]:
    """`nodes x levels`, several by comma."""
    found = []
    for part in text_.split(","):
        nodes, _, levels = part.partition("x")
        found.append((int(nodes), int(levels)))
    return found


def odds_by_rank(llm: LLM, options: argparse.Namespace, temperature: float) -> list[float]:
    """How often the target's token is each of the draft's guesses: trees of one level hold the first so many."""
    lanes = [Lane(f"{r} of a level", "sd", "sd", {**FIXED, "tree": r, "lookahead": 1}) for r in range(1, RANKS + 1)]
    texts = prompts(options.prompts, options.num_prompts)
    found = measure({"sd": llm}, lanes, texts, params=seeded(temperature, options.max_tokens))
    within = [row["acceptance_rate"] for row in found]
    return [max(0.0, after - before) for before, after in zip([0.0, *within], within, strict=False)]


def one_temperature(llm: LLM, options: argparse.Namespace, temperature: float, times: StepTimes) -> dict[str, Any]:
    """All lanes in turns, after the model has named its own."""
    odds = odds_by_rank(llm, options, temperature)
    chosen, chain = best_proposal(times, odds), best_chain(times, odds)
    lanes = [Lane("AR", "sd", "ar", {"mode": "ar"})]
    known = {chosen.levels, *options.lookaheads} if chosen.is_chain else set(options.lookaheads)
    lanes += [Lane(f"chain, K {k}", "sd", "sd", {**FIXED, "tree": 0, "lookahead": k}) for k in sorted(known)]
    shapes = dict.fromkeys([*options.trees, *([] if chosen.is_chain else [(chosen.nodes, chosen.levels)])])
    lanes += [Lane(f"tree, {n} nodes, K {k}", "sd", "sd", {**FIXED, "tree": n, "lookahead": k}) for n, k in shapes]
    lanes += [
        Lane("chain, K auto", "sd", "sd", {**ADAPTS, "tree": 0, "lookahead": "auto"}),
        Lane("tree auto, K auto", "sd", "sd", {**ADAPTS, "tree": "auto", "lookahead": "auto"}),
        Lane(f"tree auto, K {options.levels}", "sd", "sd", {**FIXED, "tree": "auto", "lookahead": options.levels}),
    ]
    texts = prompts(options.prompts, options.num_prompts)
    runs = measure({"sd": llm}, lanes, texts, params=seeded(temperature, options.max_tokens), repeats=options.repeats)
    return {"odds": odds, "model": judged(chosen, chain, summary(runs, against="AR")), "runs": runs}


def judged(chosen: ProposalChoice, chain: ProposalChoice, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The model's choice and the engine's, each against the best of all lanes."""
    speeds = {row["lane"]: row["total_tokens_per_second"] for row in rows}
    name = f"chain, K {chosen.levels}" if chosen.is_chain else f"tree, {chosen.nodes} nodes, K {chosen.levels}"
    best = max(speeds, key=lambda lane: speeds[lane])
    automatic = max((lane for lane in speeds if lane.startswith("tree auto")), key=lambda lane: speeds[lane])
    return {
        "lane": name,
        "promised": chosen.rate,
        "promised_chain": chain.rate,
        "best": best,
        "share": speeds[name] / speeds[best],
        "within": speeds[name] >= WITHIN * speeds[best],
        "auto": automatic,
        "auto_share": speeds[automatic] / speeds[best],
        "summary": rows,
    }


def step_times(measured: Mapping[str, Mapping[int, float]]) -> StepTimes:
    """As the engine measured them when it was opened; drafting and verifying take turns."""
    return StepTimes.of(measured["verify_seconds"], measured["draft_step_seconds"])


def main() -> None:
    known = parser(__doc__ or "", num_prompts=4, max_tokens=64)
    known.add_argument("--name", required=True, help="of the pair, for the record")
    known.add_argument("--device", default="cpu:0", help="of both models")
    known.add_argument("--lookaheads", type=numbers, default=[2, 3, 4, 5])
    known.add_argument(
        "--trees", type=shape, default=shape("3x2,5x3,7x3,7x4,7x5,15x4"), help="nodes x levels, by comma"
    )
    known.add_argument("--levels", type=int, default=4, help="of the fixed lookahead with tree auto")
    known.add_argument("--temperatures", type=reals, default=[0.0, 1.0])
    known.add_argument("--repeats", type=int, default=3)
    options = known.parse_args()
    with LLM(
        options.target, options.draft, mode="sd", dtype=options.dtype, lookahead="auto", tree="auto",
        target_device=options.device, draft_device=options.device, max_batch=2, max_model_len=1024,
    ) as llm:  # fmt: skip
        times = step_times(llm.statistics()["measured"])
        parts = {f"{t:g}": one_temperature(llm, options, t, times) for t in options.temperatures}
    columns = ["temperature", "setting", "tokens/s", "× AR", "accepted of compared", "tokens a round", "verify ms"]
    rows = []
    for temperature, part in parts.items():
        for row in part["model"]["summary"]:
            names = ("ratio", "acceptance_rate", "acceptance_length")
            figures = (text(row[name]) for name in names)
            rows.append([temperature, row["lane"], speed(row), *figures, text(row["verify_ms"], 1)])
    words = [
        f"T {temperature}: the model chose {part['model']['lane']} ({part['model']['share']:.3f} of the best, "
        f"{part['model']['best']}), the engine's own choice gave {part['model']['auto_share']:.3f}"
        for temperature, part in parts.items()
    ]
    note = (
        f"{pair(options)}, both on {options.device}; {options.num_prompts} prompts × {options.max_tokens} tokens, "
        f"{options.repeats} repeats in turns; {'; '.join(words)}"
    )
    passes = {"verify": dict(times.verify_alone), "step": dict(times.step_alone)}
    keep(f"trees-{options.name}", columns, rows, note, parts=parts, times=passes)


if __name__ == "__main__":
    main()
