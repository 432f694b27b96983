"""Fan-out policies in real time: `ranked` at the budget that `auto` takes against every other policy at the same.

    python benchmarks/policies.py --target T --draft D [--num-prompts 6] [--repeats 3]

One engine in the paper's placement chooses lookahead and budget by itself over a first prompt; both are then fixed, and
the policies take turns prompt by prompt. `listed` is left out: its list is what `uniform` gives. AR runs first, so that
every text is compared with it. Writes results/policies.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lanes import RESULTS, ROOT, Lane, log, measure, prompts, summary, text

from saguaro import LLM, SamplingParams
from saguaro.algorithm.fan_out import FAN_OUT
from saguaro.bench.machine import machine, versions
from saguaro.bench.run import model_name
from saguaro.records import write_record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--prompts", type=Path, default=ROOT / "prompts" / "humaneval")
    parser.add_argument("--num-prompts", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", default="int8")
    options = parser.parse_args()

    def params(number: int) -> SamplingParams:
        return SamplingParams(
            temperature=options.temperature, seed=number, max_tokens=options.max_tokens, ignore_eos=True
        )

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
        [
            row["lane"],
            f"{row['total_tokens_per_second']:.1f} ({row['low']:.1f}–{row['high']:.1f})",
            *(text(row[name]) for name in ("ratio", "hit_rate", "acceptance_length", "depth")),
        ]
        for row in found
    ]
    note = (
        f"{model_name(options.target)} with {model_name(options.draft)}, {options.dtype}, temperature "
        f"{options.temperature:g}, K = {plan['lookahead']}, B = {plan['budget']} as auto took them; "
        f"{len(texts)} prompts × {options.max_tokens} tokens, {options.repeats} repeats in turns"
    )
    record = {"table": {"columns": columns, "rows": table}, "note": note, "summary": found, "runs": rows}
    write_record({**record, "machine": machine(), "versions": versions()}, RESULTS / "policies.json")
    log.print(table)


if __name__ == "__main__":
    main()
