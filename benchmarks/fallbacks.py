"""The fallbacks at batches 1 ... 16, beside SD, on a real pair (Section 4.3, Theorem 17).

    python benchmarks/fallbacks.py --target T --draft D [--batches 1,2,4,8,16] [--repeats 2]

Fallbacks take turns in one engine, by groups of rows that decode together, and so does `auto`, which may step back to
SD or AR there. SD is an engine of its own, with the draft on the target's device, as in the paper.
Writes results/fallbacks.json.
"""

from __future__ import annotations

from typing import Any

from lanes import Lane, keep, measure, numbers, pair, parser, prompts, seeded, speed, summary, text

from saguaro import LLM

FALLBACKS = ("none", "random", "ngram", "own_row", "neural", "adaptive")


def main() -> None:
    known = parser(__doc__ or "", num_prompts=4, max_tokens=48)
    known.add_argument("--batches", type=numbers, default=[1, 2, 4, 8, 16])
    known.add_argument("--lookahead", type=int, default=4)
    known.add_argument("--budget", type=int, default=6)
    known.add_argument("--temperature", type=float, default=0.0)
    known.add_argument("--repeats", type=int, default=2)
    options = known.parse_args()
    params = seeded(options.temperature, options.max_tokens)
    ssd = {"mode": "ssd", "lookahead": options.lookahead}
    lanes = [
        Lane("AR", "pair", "ar", {"mode": "ar"}),
        Lane("SD", "sd", "sd"),
        *(Lane(f"SSD, {name}", "pair", "ssd", {**ssd, "fallback": name}) for name in FALLBACKS),
        Lane("auto", "pair", "auto", {**ssd, "mode": "auto", "fallback": "adaptive"}),
    ]

    rows = []
    both: dict[str, Any] = {"draft": options.draft, "dtype": options.dtype, "target_device": "cpu:0"}
    both |= {"lookahead": options.lookahead, "max_batch": max(options.batches), "max_model_len": 1024}
    with (
        LLM(options.target, mode="ssd", draft_device="cpu:1", budget=options.budget, **both) as llm,
        LLM(options.target, mode="sd", **both) as sd,
    ):
        sd.configure(adapt_depth=True)  # as the rows of SSD do
        for batch in options.batches:
            texts = prompts(options.prompts, max(options.num_prompts, batch))
            rows += measure({"pair": llm, "sd": sd}, lanes, texts, params=params, batch=batch, repeats=options.repeats)
        statistics = llm.statistics()
    found = summary(rows, against="SD")
    columns = ["batch", "setting", "tokens/s in all", "× SD", "hit rate", "tokens a round"]
    table = [
        [
            str(row["batch"]),
            row["lane"],
            speed(row),
            *(text(row[name]) for name in ("ratio", "hit_rate", "acceptance_length")),
        ]
        for row in found
    ]
    note = (
        f"{pair(options)}, temperature {options.temperature:g}, K = {options.lookahead}, B = {options.budget}; "
        f"{options.max_tokens} tokens a row, {options.repeats} repeats in turns"
    )
    keep("fallbacks", columns, table, note, summary=found, runs=rows, fallback=statistics.get("fallback"))


if __name__ == "__main__":
    main()
