"""Which outcomes to prepare for: every fan-out policy on the same recorded rounds, at equal budgets.

    python benchmarks/ablation.py --target T --draft D --sets benchmarks/prompts/humaneval MORE... [--keep FOLDER]

Rounds are recorded once for each prompt set and temperature (in lockstep, without branches, K fixed). Under shared
noise they do not depend on the policy, so each policy is then asked what it would have prepared for: `simulate.replay`,
by the functions that the draft calls (tests/simulate/test_replay.py compares it with the engine round by round). Hit
rates are therefore exact for these texts, and differences are paired: 95 % intervals by a bootstrap over prompts.

Odds and curves that a profile would hold are fitted on the other half of the prompts (two folds), all sets and
temperatures together. `--keep` keeps the
rounds, so that the second part can be run again alone. The record goes to benchmarks/results/ablation.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from rich.console import Console

from saguaro import LLM
from saguaro.algorithm.odds import UNCALIBRATED, Calibration
from saguaro.algorithm.rounds import EndedRound
from saguaro.bench.machine import machine, versions
from saguaro.bench.run import model_name
from saguaro.calibrate.odds_fit import fit_calibration
from saguaro.calibrate.recording import Recording, record, recording_from, recording_options
from saguaro.calibrate.stages import Stages
from saguaro.records import write_record
from saguaro.simulate.curves import evidence_of
from saguaro.simulate.replay import replay
from saguaro.theory.bootstrap import paired_difference
from saguaro.theory.evidence import Evidence, RunningEvidence
from saguaro.workloads import dataset_name, read_prompts

POLICIES = ("uniform", "geometric", "optimal", "ranked", "all_accepted", "single_branch", "token_tree")
RESULTS = Path(__file__).resolve().parent / "results"
log = Console(stderr=True, soft_wrap=True)
UNFITTED = ("geometric", "optimal", "ranked")
"""These are also tried as an engine without a profile has them."""
CHAIN = (("geometric", "uniform"), ("optimal", "geometric"), ("ranked", "optimal"))
CANDIDATES = 32
Fitted = tuple[Evidence, Calibration]


def recorded(options: argparse.Namespace) -> dict[tuple[str, float], Recording]:
    """A recording of each prompt set and temperature."""
    engine = {
        "target": options.target,
        "draft": options.draft,
        "dtype": options.dtype,
        "target_device": options.target_device,
        "draft_device": options.draft_device,
        "max_model_len": options.max_model_len,
        **({"channel": "loopback"} if options.loopback else {}),
    }
    how = recording_options(engine, lookahead=options.lookahead, candidates=CANDIDATES, rows=options.rows)
    names = [model_name(options.target), model_name(options.draft), options.dtype, options.lookahead]
    key = {"models": names, "prompts": options.num_prompts, "tokens": options.max_tokens}
    stages = Stages(options.keep or Path(mkdtemp(prefix="saguaro-ablation-")), key)
    found = {}
    with ExitStack() as stack:
        llm: Any = None
        for folder in options.sets:
            name = dataset_name(folder / "prompts.jsonl")
            texts = read_prompts(folder / "prompts.jsonl", options.num_prompts)
            for temperature in options.temperatures:
                stage = f"{name}-{temperature:g}"
                if llm is None and not stages.done(stage):
                    llm = stack.enter_context(LLM(**how))
                began = time.monotonic()
                make = partial(_make, llm, texts, temperature, options.max_tokens)
                found[name, temperature] = recording_from(stages.get(stage, make))
                count = len(found[name, temperature].rounds)
                log.print(f"{name}, temperature {temperature:g}: {count} rounds, {time.monotonic() - began:.0f} s")
    if options.keep is None:
        stages.drop()
    return found


def _make(llm: LLM, texts: Sequence[str], temperature: float, max_tokens: int) -> dict[str, Any]:
    return record(llm, texts, temperature=temperature, max_tokens=max_tokens).plain()


def of_fold(rounds: Sequence[EndedRound], fold: int) -> list[EndedRound]:
    """Rounds of every second prompt."""
    return [each for each in rounds if each.request % 2 == fold]


def fitted(recordings: dict[tuple[str, float], Recording], fold: int) -> Fitted:
    """What a profile made of the other half of the prompts says: of all sets and temperatures, as profiles are."""
    rounds: list[EndedRound] = []
    for number, recording in enumerate(recordings.values()):
        own = of_fold(recording.rounds, 1 - fold)
        rounds += [replace(one, request=one.request + 100_000 * number) for one in own]
    return evidence_of(rounds), fit_calibration(rounds)[0]


def hits_of(
    recording: Recording, policy: str, budget: int, lookahead: int, fits: Sequence[Fitted] | None
) -> dict[int, int]:
    """Hits of each prompt under a policy; `fits` for each fold, or as an engine without a profile."""
    found: dict[int, int] = {}
    for fold in (0, 1):
        rounds = of_fold(recording.rounds, fold)
        evidence = None if fits is None else RunningEvidence(fits[fold][0])
        calibration = UNCALIBRATED if fits is None else fits[fold][1]
        hits = replay(rounds, policy, budget, lookahead=lookahead, evidence=evidence, calibration=calibration)
        for each, hit in zip(rounds, hits, strict=True):
            found[each.request] = found.get(each.request, 0) + hit
    return found


def one_setting(
    recordings: dict[tuple[str, float], Recording],
    fits: Sequence[Fitted],
    temperature: float,
    budget: int,
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Hit rates and differences at one temperature and budget: of all sets together, then of each."""
    every = {name: each for (name, own), each in recordings.items() if own == temperature}
    hits: dict[str, dict[tuple[str, int], int]] = {}
    rounds: dict[tuple[str, int], int] = {}
    for name, recording in every.items():
        for each in recording.rounds:
            rounds[name, each.request] = rounds.get((name, each.request), 0) + 1
        for policy, how in [*((p, fits) for p in POLICIES), *((p, None) for p in UNFITTED)]:
            label = policy if how is not None else f"{policy}, no profile"
            found = hits_of(recording, policy, budget, options.lookahead, how)
            hits.setdefault(label, {}).update({(name, request): count for request, count in found.items()})
    rows = []
    for group in ([*every], *([name] for name in every)) if len(every) > 1 else ([*every],):
        units = [unit for unit in rounds if unit[0] in group]
        trials = [rounds[unit] for unit in units]
        row: dict[str, Any] = {
            "temperature": temperature,
            "budget": budget,
            "prompts": group[0] if len(group) == 1 else "all",
            "rounds": sum(trials),
            "hit_rate": {
                label: sum(own[unit] for unit in units) / sum(trials) for label, own in hits.items()
            },
        }  # fmt: skip
        for suffix in ("", ", no profile"):
            for better, worse in CHAIN:
                first = better + suffix
                second = worse if worse == "uniform" else worse + suffix
                one, other = ([hits[label][unit] for unit in units] for label in (first, second))
                row.setdefault("differences", {})[f"{first} − {second}"] = list(paired_difference(one, other, trials))
        rows.append(row)
    return rows


def table(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the page shows."""
    columns = ["T", "B", "prompts", "rounds", *POLICIES, *(f"{better} − {worse}" for better, worse in CHAIN)]
    cells = []
    for row in rows:
        shown = [f"{row['temperature']:g}", row["budget"], row["prompts"], row["rounds"]]
        shown += [f"{100 * row['hit_rate'][policy]:.1f}" for policy in POLICIES]
        for better, worse in CHAIN:
            value, low, high = (100 * part for part in row["differences"][f"{better} − {worse}"])
            shown.append(f"{value:+.1f} ({low:+.1f} … {high:+.1f})")
        cells.append(shown)
    return {"columns": columns, "rows": cells}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--sets", required=True, nargs="+", type=Path, help="folders with a prompts.jsonl")
    parser.add_argument("--num-prompts", type=int, default=14)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument(
        "--temperatures", type=lambda text: [float(part) for part in text.split(",")], default="0,0.7,1"
    )
    parser.add_argument("--budgets", type=lambda text: [int(part) for part in text.split(",")], default="8,16,24")
    parser.add_argument("--lookahead", type=int, default=4)
    parser.add_argument("--rows", type=int, default=4, help="prompts that are recorded at once")
    parser.add_argument("--dtype", default="int8")
    parser.add_argument("--target-device", default="cpu:0")
    parser.add_argument("--draft-device", default="cpu:1")
    parser.add_argument("--max-model-len", type=int, default=1024)
    parser.add_argument("--loopback", action="store_true", help="both models in this process")
    parser.add_argument("--keep", type=Path, help="folder for the recorded rounds")
    parser.add_argument("--out", type=Path, default=RESULTS / "ablation.json")
    options = parser.parse_args()
    recordings = recorded(options)
    fits = [fitted(recordings, fold) for fold in (0, 1)]
    rows = []
    for temperature in options.temperatures:
        for budget in options.budgets:
            some = one_setting(recordings, fits, temperature, budget, options)
            rates = ", ".join(f"{name} {100 * rate:.1f}" for name, rate in some[0]["hit_rate"].items())
            log.print(f"temperature {temperature:g}, B {budget}: {rates}")
            rows += some
    models = " with ".join(str(model_name(each)) for each in (options.target, options.draft))
    write_record(
        {
            "machine": machine(),
            "versions": versions(),
            "config": {
                "target": model_name(options.target), "draft": model_name(options.draft), "dtype": options.dtype,
                "lookahead": options.lookahead, "num_prompts": options.num_prompts, "max_tokens": options.max_tokens,
            },
            "odds": [list(calibration) for _, calibration in fits],
            "rows": rows,
            "table": table(rows),
            "note": f"{models}; {options.num_prompts} prompts of each set × {options.max_tokens} tokens; "
            f"{options.dtype}; K = {options.lookahead}; "
            "hit rates and differences in percent, differences with 95 % intervals",
        },
        options.out,
    )  # fmt: skip


if __name__ == "__main__":
    main()
