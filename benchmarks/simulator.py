"""The simulator against the engine: tokens/s of AR, SD and SSD predicted from a calibration profile and measured.

    saguaro calibrate --target T --draft D --prompts benchmarks/prompts/humaneval --num-prompts 8 --out P.json
    python benchmarks/simulator.py --target T --draft D --profile P.json [--num-prompts 8]

One engine in the paper's placement runs AR, SD and SSD over lookaheads 1 ... 4 and three budgets, in turns. The laws
are the profile's, of the same prompts; step times are measured again before and after, since this machine's change from
hour to hour. Nothing is fitted to the speeds. Writes results/simulator.json.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from lanes import Lane, keep, measure, pair, parser, prompts, seeded, summary

from saguaro import LLM
from saguaro.planner.question import profile_laws
from saguaro.profile import load
from saguaro.simulate.clock import Setting, simulate
from saguaro.simulate.costs import Costs, measured
from saguaro.simulate.pairs import Pair

LOOKAHEADS, BUDGETS = (1, 2, 3, 4), (4, 6, 10)
VERIFY, STEP = (1, 2, 3, 4, 5), (1, 2, 4, 6, 8, 10)
LINK = 1e-4
"""Half of the hand-over that the records show for a round."""


def settings() -> dict[str, Setting]:
    """What is compared, by name."""
    found = {"AR": Setting("ar")}
    found |= {f"SD, K {k}": Setting("sd", lookahead=k) for k in LOOKAHEADS}
    for k in LOOKAHEADS:
        found |= {f"SSD, K {k}, B {b}": Setting("ssd", lookahead=k, budget=b) for b in BUDGETS}
    return found


def changes(setting: Setting) -> dict[str, Any]:
    """The same for the engine."""
    if setting.mode == "ar":
        return {"mode": "ar"}
    if setting.mode == "sd":
        return {"mode": "sd", "lookahead": setting.lookahead}
    own = {"lookahead": setting.lookahead, "budget": setting.budget}
    return {"mode": "ssd", **own, "fan_out": "geometric", "fallback": "neural"}


def middle(before: dict[str, dict[int, float]], after: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    """Times between two measurements."""
    return {
        name: {rows: (seconds + after[name][rows]) / 2 for rows, seconds in each.items()}
        for name, each in before.items()
    }


def compare(rows: list[dict[str, Any]], costs: Costs, laws: Pair) -> list[dict[str, Any]]:
    """Measured and predicted speed of every setting."""
    found = []
    for row in summary(rows):
        setting = settings()[row["lane"]]
        run = simulate(setting, costs, laws, rounds=20000)
        one = {"setting": row["lane"], "measured": row["total_tokens_per_second"], "predicted": run.tokens_per_second}
        one |= {"low": row["low"], "high": row["high"], "hit_rate": row["hit_rate"], "predicted_hit_rate": run.hit_rate}
        one |= {"tokens_a_round": row["acceptance_length"], "predicted_tokens_a_round": run.tokens_a_round}
        one["error"] = one["predicted"] / one["measured"] - 1
        found.append(one)
    return found


def main() -> None:
    known = parser(__doc__ or "", num_prompts=8, max_tokens=64)
    known.add_argument("--profile", required=True, type=Path)
    options = known.parse_args()
    laws = profile_laws(load(options.profile), options.profile.name)
    lanes = [Lane(name, "pair", setting.mode, changes(setting)) for name, setting in settings().items()]
    with LLM(
        options.target, options.draft, mode="ssd", dtype=options.dtype, target_device="cpu:0", draft_device="cpu:1",
        lookahead=max(LOOKAHEADS), budget=max(BUDGETS), max_batch=1, max_model_len=1024,
    ) as llm:  # fmt: skip
        before = llm._open.measure_times(VERIFY, STEP, seconds=3.0)
        texts = prompts(options.prompts, options.num_prompts)
        rows = measure({"pair": llm}, lanes, texts, params=seeded(0.0, options.max_tokens))
        times = middle(before, llm._open.measure_times(VERIFY, STEP, seconds=3.0))
    found = compare(rows, measured(times, link=LINK), laws.pair)
    errors = [abs(one["error"]) for one in found]
    columns = ["setting", "measured, tokens/s", "predicted", "error", "hit rate", "predicted "]
    table = [
        [
            one["setting"], f"{one['measured']:.1f}", f"{one['predicted']:.1f}", f"{100 * one['error']:+.1f} %",
            *("–" if value is None else f"{value:.2f}" for value in (one["hit_rate"], one["predicted_hit_rate"])),
        ]
        for one in found
    ]  # fmt: skip
    note = (
        f"{pair(options)}, cpu:0 and cpu:1; laws of "
        f"{options.profile.name}, step times of the same run; {options.num_prompts} prompts × "
        f"{options.max_tokens} tokens; median error {100 * median(errors):.1f} %, largest {100 * max(errors):.1f} %"
    )
    keep("simulator", columns, table, note, points=found, times=times)


if __name__ == "__main__":
    main()
