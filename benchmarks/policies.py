"""Fan-out policies in real time: `ranked` at the budget that `auto` takes against every other policy at the same.

    python benchmarks/policies.py --target T --draft D [--num-prompts 6] [--repeats 3]

One engine in the paper's placement chooses lookahead and budget by itself over a first prompt; both are then fixed, and
the policies take turns prompt by prompt. `listed` is left out: its list is what `uniform` gives. AR runs first, so that
every text is compared with it. Writes results/policies.json.
"""

from __future__ import annotations

from lanes import Lane, keep, measure, pair, parser, prompts, seeded, speed, summary, text

from saguaro import LLM
from saguaro.algorithm.fan_out import FAN_OUT


def main() -> None:
    known = parser(__doc__ or "", num_prompts=6, max_tokens=64)
    known.add_argument("--temperature", type=float, default=0.0)
    known.add_argument("--repeats", type=int, default=3)
    options = known.parse_args()
    params = seeded(options.temperature, options.max_tokens)
    texts = prompts(options.prompts, options.num_prompts)
    with LLM(
        options.target, options.draft, mode="ssd", dtype=options.dtype, target_device="cpu:0", draft_device="cpu:1",
        max_batch=1, max_model_len=1024,
    ) as llm:  # fmt: skip
        llm.generate(texts[0], params(0))
        chosen = llm.statistics()["gears"]
        plan = {"mode": "ssd", "lookahead": chosen["lookahead"], "budget": chosen["budget"]}
        names = ("ranked", *(name for name in FAN_OUT if name not in ("ranked", "listed")))
        lanes = [Lane(name, "pair", "ssd", {**plan, "fan_out": name}) for name in names]
        ar = Lane("AR", "pair", "ar", {"mode": "ar"})
        rows = measure({"pair": llm}, [ar, *lanes], texts, params=params, repeats=options.repeats)
    found = summary(rows, against="ranked")
    columns = ["policy", "tokens/s", "× ranked", "hit rate", "tokens a round", "depth of a hit"]
    table = [
        [row["lane"], speed(row), *(text(row[name]) for name in ("ratio", "hit_rate", "acceptance_length", "depth"))]
        for row in found
    ]
    note = (
        f"{pair(options)}, temperature {options.temperature:g}, K = {plan['lookahead']}, B = {plan['budget']} as "
        f"auto took them; {len(texts)} prompts × {options.max_tokens} tokens, {options.repeats} repeats in turns"
    )
    keep("policies", columns, table, note, summary=found, runs=rows)


if __name__ == "__main__":
    main()
