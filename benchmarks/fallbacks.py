"""The fallbacks at batches 1 ... 16, beside SD, on a real pair (Section 4.3, Theorem 17).

    python benchmarks/fallbacks.py --target T --draft D [--batches 1,2,4,8,16] [--repeats 2]

Fallbacks take turns in one engine, by groups of rows that decode together, and so does `auto`, which may step back to
SD or AR there. SD is an engine of its own, with the draft on the target's device, as in the paper.
Writes results/fallbacks.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lanes import RESULTS, ROOT, Lane, log, measure, prompts, summary, text

from saguaro import LLM, SamplingParams
from saguaro.bench.machine import machine, versions
from saguaro.bench.run import model_name
from saguaro.records import write_record

FALLBACKS = ("none", "random", "ngram", "own_row", "neural", "adaptive")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--prompts", type=Path, default=ROOT / "prompts" / "humaneval")
    parser.add_argument("--batches", type=lambda s: [int(part) for part in s.split(",")], default=[1, 2, 4, 8, 16])
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--lookahead", type=int, default=4)
    parser.add_argument("--budget", type=int, default=6)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--dtype", default="int8")
    options = parser.parse_args()
    ssd = {"mode": "ssd", "lookahead": options.lookahead}
    lanes = [
        Lane("AR", "pair", "ar", {"mode": "ar"}),
        Lane("SD", "sd", "sd"),
        *(Lane(f"SSD, {name}", "pair", "ssd", {**ssd, "fallback": name}) for name in FALLBACKS),
        Lane("auto", "pair", "auto", {**ssd, "mode": "auto", "fallback": "adaptive"}),
    ]

    def params(number: int) -> SamplingParams:
        return SamplingParams(
            temperature=options.temperature, seed=number, max_tokens=options.max_tokens, ignore_eos=True
        )

    rows = []
    both: dict[str, Any] = {"draft": options.draft, "dtype": options.dtype, "target_device": "cpu:0"}
    both |= {"lookahead": options.lookahead, "max_batch": max(options.batches), "max_model_len": 1024}
    with (
        LLM(options.target, mode="ssd", draft_device="cpu:1", budget=options.budget, **both) as llm,
        LLM(options.target, mode="sd", **both) as sd,
    ):
        sd.configure(adapt_depth=True)  # as the rows of SSD do
        for batch in options.batches:
            texts = prompts(options.prompts, max(4, batch))
            rows += measure({"pair": llm, "sd": sd}, lanes, texts, params=params, batch=batch, repeats=options.repeats)
        statistics = llm.statistics()
    found = summary(rows, against="SD")
    columns = ["batch", "setting", "tokens/s in all", "× SD", "hit rate", "tokens a round"]
    table = [
        [
            str(row["batch"]),
            row["lane"],
            f"{row['total_tokens_per_second']:.1f} ({row['low']:.1f}–{row['high']:.1f})",
            *(text(row[name]) for name in ("ratio", "hit_rate", "acceptance_length")),
        ]
        for row in found
    ]
    note = (
        f"{model_name(options.target)} with {model_name(options.draft)}, {options.dtype}, temperature "
        f"{options.temperature:g}, K = {options.lookahead}, B = {options.budget}; {options.max_tokens} tokens a row, "
        f"{options.repeats} repeats in turns"
    )
    record = {"table": {"columns": columns, "rows": table}, "note": note, "summary": found, "runs": rows}
    record |= {"fallback": statistics.get("fallback"), "machine": machine(), "versions": versions()}
    write_record(record, RESULTS / "fallbacks.json")
    log.print(table)


if __name__ == "__main__":
    main()
