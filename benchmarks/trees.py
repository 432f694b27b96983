"""Proposal trees against chains, in turns: in SD with what the cost model would have chosen, or in SSD.

    python benchmarks/trees.py --target T --draft D --name qwen [--device cpu:0] [--temperatures 0,1]
    python benchmarks/trees.py --target T --draft D --name qwen --mode ssd [--device cpu:0] [--draft-device cpu:1]

SD: both models on one device. A first pass with one level tells how often the target's token is the draft's first
guess, its second, ...; from that and the measured step times `theory.tree_rates` names the shape that it expects to be
best. Then chains, trees, the engine's own choice (`tree="auto"`) and the model's take turns prompt by prompt,
`--repeats` times.
SSD: chains, chains with siblings that pay (`tree="auto"`) and with as many as there is room for take turns in one
engine; AR has one turn, for its texts.
Every text must be that of AR. Writes results/trees-NAME.json or results/trees-ssd-NAME.json.
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


CHAINS = "chains"


def ssd_lanes(options: argparse.Namespace) -> list[Lane]:
    """Chains first: the others are compared with them."""
    lanes = [Lane(CHAINS, "ssd", "ssd", {"mode": "ssd", "tree": 0})]
    lanes += [Lane("siblings, auto", "ssd", "ssd", {"mode": "ssd", "tree": "auto"})]
    lanes += [Lane(f"siblings, {n} nodes", "ssd", "ssd", {"mode": "ssd", "tree": n}) for n in options.nodes]
    return lanes


def ssd_temperature(llm: LLM, options: argparse.Namespace, temperature: float) -> list[dict[str, Any]]:
    """All lanes in turns, with AR in the first of the repeats."""
    lanes, texts = ssd_lanes(options), prompts(options.prompts, options.num_prompts)
    params = seeded(temperature, options.max_tokens)
    runs = measure({"ssd": llm}, [*lanes, Lane("AR", "ssd", "ar", {"mode": "ar"})], texts, params=params)
    if options.repeats > 1:
        more = measure({"ssd": llm}, lanes, texts, params=params, repeats=options.repeats - 1)
        runs += [{**row, "repeat": row["repeat"] + 1} for row in more]
    return runs


def ssd_main(options: argparse.Namespace) -> None:
    """The comparison in SSD."""
    with LLM(
        options.target, options.draft, mode="ssd", dtype=options.dtype, target_device=options.device,
        draft_device=options.draft_device, max_batch=2, max_model_len=1024,
    ) as llm:  # fmt: skip
        plan = llm.statistics()["gears"]
        runs = {f"{t:g}": ssd_temperature(llm, options, t) for t in options.temperatures}
    columns = ["temperature", "setting", "tokens/s", "× chains", "hit rate", "tokens a round", "verify ms", "wait ms"]
    rows, words = [], []
    for temperature, own in runs.items():
        lines = summary(own, against=CHAINS)
        for row in lines:
            figures = (text(row[name]) for name in ("ratio", "hit_rate", "acceptance_length"))
            waits = (text(row[name], 1) for name in ("verify_ms", "target_wait_ms"))
            rows.append([temperature, row["lane"], speed(row), *figures, *waits])
        known = {row["lane"]: row["ratio"] for row in lines if row["lane"] != "AR"}
        automatic = known["siblings, auto"] / max(known.values())
        words.append(f"T {temperature}: the engine's own choice gave {automatic:.3f} of the best")
    note = (
        f"{pair(options)}, on {options.device} and {options.draft_device}; K = {plan['lookahead']}, "
        f"B = {plan['budget']} at the start; {options.num_prompts} prompts × {options.max_tokens} tokens, "
        f"{options.repeats} repeats in turns; {'; '.join(words)}"
    )
    keep(f"trees-ssd-{options.name}", columns, rows, note, runs=runs)


def main() -> None:
    known = parser(__doc__ or "", num_prompts=4, max_tokens=64)
    known.add_argument("--mode", choices=("sd", "ssd"), default="sd")
    known.add_argument("--draft-device", default="cpu:1", help="with --mode ssd")
    known.add_argument("--nodes", type=numbers, default=[7], help="of a proposal with --mode ssd, by comma")
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
    if options.mode == "ssd":
        ssd_main(options)
        return
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
