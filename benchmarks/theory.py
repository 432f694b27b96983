"""The theory against the engine: hit rates of Theorem 7's chain, and speed-ups of Theorem 7 and Corollary 16 from
measured parts.

    python benchmarks/theory.py --target T --draft D [--batches 1,2,4] [--temperatures 0,1]

AR and SSD take turns in one engine. Every part of the formula is counted or timed in the same run: p_hit, E_hit,
E_miss, T_p (drafting a round, in units of a verification of AR) and T_b (what a miss makes the target wait). The second
prediction adds what the theorem leaves out: a verification of K + 1 rows beside a working draft is longer than one of
AR, and a hit may be waited for. Writes results/theory.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import sqrt
from typing import Any

from lanes import Lane, keep, log, measure, numbers, pair, parser, prompts, reals, seeded, text

from saguaro import LLM, RequestMetrics
from saguaro.bench.figures import draft_round_seconds
from saguaro.theory.speedup import long_run_hit_rate, ssd_speedup


def total(metrics: Sequence[RequestMetrics], name: str) -> float:
    """A counter over all requests."""
    return sum(getattr(m, name) for m in metrics)


def listed(metrics: Sequence[RequestMetrics], name: str) -> list[int]:
    """Counters by position over all requests."""
    return [sum(column) for column in zip_longest(*(getattr(m, name) for m in metrics), fillvalue=0)]


def interval(hits: float, rounds: float) -> tuple[float, float]:
    """Half the 95 % interval of a rate, beside it."""
    rate = hits / rounds if rounds else 0.0
    return rate, 1.96 * sqrt(rate * (1 - rate) / rounds) if rounds else 0.0


def chain(metrics: Sequence[RequestMetrics]) -> dict[str, float]:
    """Theorem 7's second part: p_hit from p_hit,p and p_hit,b, beside the measured one."""
    after_hit, _ = interval(total(metrics, "hits_after_hit"), total(metrics, "rounds_after_hit"))
    after_miss, _ = interval(total(metrics, "hits_after_miss"), total(metrics, "rounds_after_miss"))
    hits = total(metrics, "hits")
    rate, half = interval(hits, hits + total(metrics, "misses"))
    return {
        "p_hit_p": after_hit,
        "p_hit_b": after_miss,
        "p_hit": rate,
        "half_interval": half,
        "predicted": long_run_hit_rate(after_hit=after_hit, after_miss=after_miss),
    }


def tokens_a_round(metrics: Sequence[RequestMetrics], kind: str) -> float:
    """E_hit or E_miss: a proposal that was `hit` or answered a `miss`, and the bonus token."""
    rounds = total(metrics, "hits" if kind == "hit" else "misses")
    accepted = sum(listed(metrics, f"{kind}_accepted_per_position"))
    return 1 + accepted / rounds if rounds else 1.0


def compare(
    ar: Sequence[RequestMetrics], ssd: Sequence[RequestMetrics], draft_round: float, batch: int
) -> dict[str, Any]:
    """Measured and predicted speed-up of SSD over AR, each row of a batch for itself."""
    unit = total(ar, "decode_seconds") / total(ar, "rounds")
    rounds = total(ssd, "rounds")
    seconds = total(ssd, "decode_seconds")
    one = chain(ssd)
    e_hit, e_miss = tokens_a_round(ssd, "hit"), tokens_a_round(ssd, "miss")
    misses = total(ssd, "misses")
    t_b = total(ssd, "wait_pending_seconds") / unit / misses if misses else 0.0
    t_p = draft_round / unit
    verify = total(ssd, "verify_seconds") / rounds / unit
    waited = (total(ssd, "wait_depth_seconds") + total(ssd, "handover_seconds")) / rounds / unit
    pending = total(ssd, "wait_pending_seconds") / rounds / unit
    tokens = one["p_hit"] * e_hit + (1 - one["p_hit"]) * e_miss
    measured = (rounds + total(ssd, "accepted")) / seconds * unit
    theorem = ssd_speedup(one["p_hit"], tokens_hit=e_hit, tokens_miss=e_miss, primary=t_p, fallback=t_b, batch=batch)
    whole = tokens / (verify + waited + pending)
    return {
        **one, "E_hit": e_hit, "E_miss": e_miss, "T_p": t_p, "T_b": t_b, "verify": verify, "wait_for_hits": waited,
        "ar_step_ms": 1e3 * unit, "measured": measured, "theorem": theorem, "with_missing_terms": whole,
    }  # fmt: skip


def main() -> None:
    known = parser(__doc__ or "", num_prompts=8, max_tokens=96)
    known.add_argument("--batches", type=numbers, default=[1, 2, 4])
    known.add_argument("--temperatures", type=reals, default=[0.0, 1.0])
    known.add_argument("--fallbacks", type=lambda s: s.split(","), default=["neural", "none"])
    known.add_argument("--lookahead", type=int, default=4)
    known.add_argument("--budget", type=int, default=6)
    options = known.parse_args()
    ssd = {"mode": "ssd", "lookahead": options.lookahead}
    lanes = [Lane("AR", "pair", "ar", {"mode": "ar"})]
    lanes += [Lane(f"SSD, {name}", "pair", "ssd", {**ssd, "fallback": name}) for name in options.fallbacks]
    found: dict[str, Any] = {}
    with LLM(
        options.target, options.draft, mode="ssd", dtype=options.dtype, target_device="cpu:0", draft_device="cpu:1",
        lookahead=options.lookahead, budget=options.budget, max_batch=max(options.batches), max_model_len=1024,
    ) as llm:  # fmt: skip
        for temperature in options.temperatures:
            for batch in options.batches:
                texts = prompts(options.prompts, max(options.num_prompts, batch))
                kept: dict[str, list[RequestMetrics]] = {}
                params = seeded(temperature, options.max_tokens)
                measure({"pair": llm}, lanes, texts, params=params, batch=batch, kept=kept)
                draft_round = draft_round_seconds(llm.statistics(), mode="ssd") or 0.0
                for lane in lanes[1:]:
                    one = compare(kept["AR"], kept[lane.name], draft_round, batch)
                    found[f"T {temperature:g}, batch {batch}, {lane.name}"] = one
                    log.print(lane.name, one)
    columns = [
        "setting", "p_hit", "by the chain", "E_hit", "E_miss", "T_p", "T_b", "verification", "measured × AR",
        "Theorem 7 / Corollary 16", "with the missing terms",
    ]  # fmt: skip
    names = ("predicted", "E_hit", "E_miss", "T_p", "T_b", "verify", "measured", "theorem", "with_missing_terms")
    rows = [
        [name, f"{one['p_hit']:.2f} ± {one['half_interval']:.2f}", *(text(one[each]) for each in names)]
        for name, one in found.items()
    ]
    note = (
        f"{pair(options)}, K = {options.lookahead}, B = {options.budget}; {options.num_prompts} prompts × "
        f"{options.max_tokens} tokens; times in units of a step of "
        f"AR with as many rows"
    )
    keep("theory", columns, rows, note, parts=found)


if __name__ == "__main__":
    main()
