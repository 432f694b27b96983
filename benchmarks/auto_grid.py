"""Whether `auto` finds what a grid finds: settings of (mode, K, B, policy, fallback), then the best against `auto`.

    python benchmarks/auto_grid.py --target T --draft D [--placements split,whole] [--batches 1,8] [--only-ar]

One engine a placement runs the grid, reconfigured between requests; settings take turns prompt by prompt. The
three best, AR and `auto` (an engine of its own, which has no option but the devices) are then run again in turns, and
only those numbers are compared. Prompts are known from the first run on, so that decoding alone is measured. Every
output is compared with AR's. `--only-ar` leaves the grid out, and runs AR and `auto` in one engine: two copies of the
weights may lie differently in memory and so differ in speed. The record goes to benchmarks/results/auto-grid.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from lanes import on
from rich.console import Console

from saguaro import LLM, SamplingParams
from saguaro.bench.load import Request, closed_loop
from saguaro.bench.machine import machine, versions
from saguaro.bench.run import model_name
from saguaro.bench.session import Session
from saguaro.config import FALLBACKS
from saguaro.device import allowed_cores
from saguaro.records import write_record

ROOT = Path(__file__).resolve().parent
RESULT = ROOT / "results" / "auto-grid.json"
LOOKAHEADS = (2, 3, 4, 5, 6, 8)
BUDGETS = (5, 8, 12)
POLICIES = ("geometric", "uniform")
BEST = 3
WARMUP_TOKENS = 48
log = Console(stderr=True)


@dataclass
class Candidate:
    """One setting, and the tokens a second of each of its runs."""

    name: str
    changes: dict[str, Any]
    speeds: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Median over runs."""
        return median(self.speeds)


def candidates(split: bool) -> list[Candidate]:
    """K and B in full with the defaults of the others, then each other policy and fallback at K = 5, B = 8."""
    found = [Candidate("ar", {"mode": "ar"})]
    found += [Candidate(f"sd K={k}", {"mode": "sd", "lookahead": k}) for k in (1, *LOOKAHEADS)]
    if not split:
        return found
    plain = {"mode": "ssd", "lookahead": 5, "budget": 8, "fan_out": "ranked", "fallback": "neural"}
    for k in LOOKAHEADS:
        found += [Candidate(f"ssd K={k} B={b}", {**plain, "lookahead": k, "budget": b}) for b in BUDGETS if b >= k]
    found += [Candidate(f"ssd K=5 B=8 {policy}", {**plain, "fan_out": policy}) for policy in POLICIES]
    others = [name for name in FALLBACKS if name not in ("auto", "neural")]
    return found + [Candidate(f"ssd K=5 B=8 {name}", {**plain, "fallback": name}) for name in others]


def prompts(folder: Path, count: int) -> list[str]:
    """The first prompts of a set."""
    lines = (folder / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["prompt"] for line in lines[:count]]


def piece(llm: LLM, texts: Sequence[str], tokens: int) -> tuple[float, list[list[int]]]:
    """Tokens a second of all rows while these prompts decode together, and their ids."""
    params = SamplingParams(temperature=0.0, seed=0, max_tokens=tokens, ignore_eos=True)
    requests = [Request(i, text, params) for i, text in enumerate(texts)]
    done = [one.completion for one in closed_loop(Session(llm), requests, len(requests)).served]
    speed = sum((len(c.token_ids) - 1) / c.metrics.decode_seconds for c in done)
    return speed, [c.token_ids for c in done]


class Comparison:
    """Ids of every prompt as they were first seen; whoever has others is written down."""

    def __init__(self) -> None:
        self.compared = 0
        self.different: list[str] = []
        self._longest: dict[str, list[int]] = {}

    def add(self, name: str, texts: Sequence[str], ids: Sequence[list[int]]) -> None:
        """Compare outputs, as far as both go."""
        for text, own in zip(texts, ids, strict=True):
            known = self._longest.setdefault(text, own)
            length = min(len(known), len(own))
            self.compared += known is not own
            if known[:length] != own[:length]:
                self.different.append(f"{name}: {text[:40]!r}")
            if len(own) > len(known):
                self._longest[text] = own


def grid(llm: LLM, every: Sequence[Candidate], texts: Sequence[str], batch: int, tokens: int, same: Comparison) -> None:
    """Run all candidates, prompt by prompt (or batch by batch), each time beginning with another."""
    for turn, first in enumerate(range(0, len(texts), batch)):
        shift = turn * (len(every) // 2)
        for each in (*every[shift:], *every[:shift]):
            llm.configure(**each.changes)
            speed, ids = piece(llm, texts[first : first + batch], tokens)
            each.speeds.append(speed)
            same.add(each.name, texts[first : first + batch], ids)


def again(
    lanes: Sequence[tuple[Candidate, LLM]], texts: Sequence[str], batch: int, tokens: int, same: Comparison
) -> None:
    """Run the best, AR and `auto` once more, in turns."""
    for turn, first in enumerate(range(0, len(texts), batch)):
        shift = turn % len(lanes)
        for each, llm in (*lanes[shift:], *lanes[:shift]):
            if each.changes:
                llm.configure(**each.changes)
            speed, ids = piece(llm, texts[first : first + batch], tokens)
            each.speeds.append(speed)
            same.add(each.name, texts[first : first + batch], ids)


def placement(options: argparse.Namespace, name: str, same: Comparison) -> list[dict[str, Any]]:
    """Grid and comparison at one placement, for each batch."""
    every = f"cpu:0-{len(allowed_cores()) - 1}"
    devices = ("cpu:0", "cpu:1") if name == "split" else (every, every)
    engine: dict[str, Any] = {"draft": options.draft, "dtype": options.dtype, "max_batch": max(options.batches)}
    engine |= {"target_device": devices[0], "draft_device": devices[1], "max_model_len": options.max_model_len}
    found = []
    with ExitStack() as stack:
        llm = stack.enter_context(LLM(options.target, mode="auto", **engine))
        auto = llm if options.only_ar else stack.enter_context(LLM(options.target, **engine))
        for batch in options.batches:
            texts = prompts(options.set, options.prompts if batch == 1 else batch * max(1, options.prompts // 4))
            tokens = options.tokens if batch == 1 else max(8, options.tokens // 2)
            for each in dict.fromkeys((llm, auto)):  # prompts are computed once
                for first in range(0, len(texts), max(options.batches)):
                    piece(each, texts[first : first + max(options.batches)], WARMUP_TOKENS)
            tried = candidates(split=name == "split")[: 1 if options.only_ar else None]
            began = time.monotonic()
            if not options.only_ar:
                grid(llm, tried, texts, batch, tokens, same)
                tried.sort(key=lambda each: -each.speed)
            log.print(f"{name}, batch {batch}: {len(tried)} settings in {time.monotonic() - began:.0f} s")
            best = [Candidate(each.name, each.changes) for each in tried[:BEST]]
            if all(each.name != "ar" for each in best):
                best.append(Candidate("ar", {"mode": "ar"}))
            own = Candidate("auto", {"mode": "auto"} if options.only_ar else {})
            turns = max(2, -(-options.turns * batch // len(texts)))
            again([*((each, llm) for each in best), (own, auto)], texts * turns, batch, 2 * tokens, same)
            found.append(_entry(name, devices, batch, tried, [*best, own], auto.statistics()))
            log.print(found[-1]["line"])
    return found


def _entry(
    name: str, devices: tuple[str, str], batch: int, tried: Sequence[Candidate], final: Sequence[Candidate],
    statistics: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """What one placement and batch gave. Ratios are medians over the turns, in which all ran one after another."""
    by_name = {each.name: each for each in final}
    auto = by_name["auto"]
    best = max((each for each in final if each is not auto), key=lambda each: each.speed)

    def ratio(other: Candidate) -> float:
        return median(mine / theirs for mine, theirs in zip(auto.speeds, other.speeds, strict=True))

    line = (
        f"{name}, batch {batch}: auto {auto.speed:.1f} tokens/s, best of the grid {best.name} {best.speed:.1f}: "
        f"{ratio(best):.3f} ×; of AR {ratio(by_name['ar']):.3f} ×"
    )
    return {
        "placement": name,
        "devices": list(devices),
        "batch": batch,
        "grid": [{"name": each.name, **each.changes, "tokens_per_second": each.speeds} for each in tried],
        "final": [{"name": each.name, "tokens_per_second": each.speeds} for each in final],
        "auto_over_best": ratio(best),
        "auto_over_ar": ratio(by_name["ar"]),
        "best": best.name,
        "gears": statistics["gears"],
        "line": line,
    }


def main() -> None:
    """Run the placements and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--dtype", default="int8")
    parser.add_argument("--placements", default="split,whole", type=lambda text: text.split(","))
    parser.add_argument("--batches", default="1,8", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--set", default=ROOT / "prompts" / "humaneval", type=Path, help="folder with a prompts.jsonl")
    parser.add_argument("--prompts", default=3, type=int, help="prompts at batch 1; a quarter as many groups above it")
    parser.add_argument(
        "--turns", default=8, type=int, help="least turns of the comparison, so that what befalls one does not decide"
    )
    parser.add_argument("--only-ar", action="store_true", help="no grid: AR and auto only")
    parser.add_argument(
        "--tokens", default=32, type=int, help="tokens of an output in the grid; twice as many after it"
    )
    parser.add_argument("--max-model-len", default=1024, type=int)
    parser.add_argument("--out", default=RESULT, type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    compared = {name: Comparison() for name in options.placements}
    entries = [entry for name, same in compared.items() for entry in placement(options, name, same)]
    different = [f"{name}: {each}" for name, same in compared.items() for each in same.different]
    outputs = {"compared": sum(same.compared for same in compared.values()), "different": different}
    columns = ["placement", "batch", "auto, tokens/s", "best of the grid", "tokens/s", "auto ÷ best", "auto ÷ AR"]
    rows = []
    for entry in entries:
        speeds = {each["name"]: median(each["tokens_per_second"]) for each in entry["final"]}
        best = entry["best"]
        ratios = [f"{entry['auto_over_best']:.3f}", f"{entry['auto_over_ar']:.3f}"]
        where = " + ".join(dict.fromkeys(entry["devices"]))
        rows.append([where, entry["batch"], f"{speeds['auto']:.1f}", best, f"{speeds[best]:.1f}", *ratios])
    facts = machine()
    record = {
        "machine": facts,
        "versions": versions(),
        "config": {
            "target": model_name(options.target),
            "draft": model_name(options.draft),
            "dtype": options.dtype,
            "set": options.set.name,
            "prompts": options.prompts,
            "tokens": options.tokens,
            "seconds": time.monotonic() - began,
        },
        "entries": entries,
        "outputs": outputs,
        "table": {"columns": columns, "rows": rows},
        "note": f"{model_name(options.target)} with {model_name(options.draft)}, {options.dtype}; {options.set.name}, "
        f"greedy; {len(entries[0]['grid'])} settings, the {BEST} best run again in turns with auto; {on(facts)}",
    }
    write_record(record, options.out)
    log.print(f"outputs: {outputs['compared']} comparisons, {len(different)} differ; {options.out}")
    raise SystemExit(1 if different else 0)


if __name__ == "__main__":
    main()
