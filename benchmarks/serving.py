"""What many requests cost, on a real model: batch speed, the host's share, prompts beside decoding, second turns, long
contexts, prefill, JSON by a schema.

    python benchmarks/serving.py --target T [--draft D] [--parts batch,beside,...] [--repeats 3]

Parts alternate what they compare, `--repeats` times. The record goes to benchmarks/results/serving.json; a part that
was not run keeps what an earlier record says of it, with its own machine and versions.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from saguaro import LLM, Completion, SamplingParams
from saguaro.algorithm.options import Sampling
from saguaro.bench.load import Request
from saguaro.bench.machine import machine, versions
from saguaro.bench.session import Session
from saguaro.choices import Choice
from saguaro.models.grammar import grammar_text
from saguaro.records import write_record

ROOT = Path(__file__).resolve().parent
RESULT = ROOT / "results" / "serving.json"
log = Console(stderr=True)


def prompts(folder: str, count: int) -> list[str]:
    """The first prompts of a file."""
    lines = (ROOT / "prompts" / folder / "prompts.jsonl").read_text().splitlines()
    return [json.loads(line)["prompt"] for line in lines[:count]]


def long_ids(llm: LLM, length: int) -> list[int]:
    """So many tokens of running text."""
    ids = llm.tokenizer.encode(prompts("long", 1)[0])
    return (ids * (1 + length // len(ids)))[:length]


def greedy(count: int, **more: Any) -> SamplingParams:
    """Exactly `count` tokens."""
    return SamplingParams(**{"temperature": 0.0, "seed": 1, "max_tokens": count, "ignore_eos": True, **more})


@contextmanager
def opened(options: argparse.Namespace, mode: str, **more: Any) -> Iterator[LLM]:
    """An engine in the paper's placement."""
    arguments: dict[str, Any] = {"dtype": "int8", "target_device": "cpu:0", "max_model_len": 8448, **more}
    if mode == "ssd":
        arguments |= {"draft": options.draft, "draft_device": "cpu:1"}
    with LLM(options.target, mode=mode, **arguments) as llm:
        yield llm


def spread(values: list[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": median(values), "low": min(values), "high": max(values)}


def step_seconds(llm: LLM) -> dict[str, float]:
    """What the target's steps were made of so far."""
    return dict(llm.statistics()["seconds"])


def decoding(llm: LLM, batch: int, params: SamplingParams) -> tuple[float, dict[str, float]]:
    """Tokens a second of `batch` rows that decode together, their prompts known before; and the parts of the steps."""
    texts = prompts("humaneval", batch)
    llm.generate(texts, greedy(2))
    before = step_seconds(llm)
    results = llm.generate(texts, params)
    parts = {name: value - before[name] for name, value in step_seconds(llm).items()}
    return sum((len(r.token_ids) - 1) / r.metrics.decode_seconds for r in results), parts


def batch_part(options: argparse.Namespace) -> dict[str, Any]:
    """AR: tokens a second of all rows, by batch."""
    found: dict[int, list[float]] = {1: [], 2: [], 4: [], 8: [], 16: []}
    with opened(options, "ar", max_batch=16, max_model_len=1024) as llm:
        for _ in range(options.repeats):
            for batch, speeds in found.items():
                speeds.append(decoding(llm, batch, greedy(48))[0])
                log.print(f"batch {batch}: {speeds[-1]:.1f} tokens/s")
    ratios = [eight / one for eight, one in zip(found[8], found[1], strict=True)]
    speeds = {str(batch): spread(each) for batch, each in found.items()}
    return {"tokens_per_second": speeds, "ratio_8_to_1": spread(ratios)}


def host_part(options: argparse.Namespace) -> dict[str, Any]:
    """AR at batch 16: scheduling, drawing, reporting and text, as shares of a step."""
    found: dict[str, list[float]] = {"greedy": [], "temperature 1": []}
    shares: dict[str, dict[str, float]] = {}
    text_seconds = 0.0
    add: Callable[..., Any] = Choice.add

    def timed(choice: Choice, report: Any) -> Any:
        nonlocal text_seconds
        began = time.monotonic()
        delta = add(choice, report)
        text_seconds += time.monotonic() - began
        return delta

    Choice.add = timed  # type: ignore[method-assign]
    try:
        with opened(options, "ar", max_batch=16, max_model_len=1024) as llm:
            for _ in range(options.repeats):
                for name, params in (("greedy", greedy(48)), ("temperature 1", greedy(48, temperature=1.0))):
                    text_seconds = 0.0
                    _, parts = decoding(llm, 16, params)
                    parts["text"] = text_seconds
                    whole = sum(parts.values())
                    shares[name] = {part: value / whole for part, value in parts.items()}
                    found[name].append(1 - shares[name]["model"])
                    log.print(f"host share, {name}: {100 * found[name][-1]:.2f} %")
    finally:
        Choice.add = add  # type: ignore[method-assign]
    return {"share": {name: spread(each) for name, each in found.items()}, "last": shares}


def beside_part(options: argparse.Namespace) -> dict[str, Any]:
    """Gaps between deliveries of a running row, before and while a prompt of 4,096 tokens is filled in."""
    modes = ["ar", "ssd"] if options.draft else ["ar"]
    found: dict[str, dict[str, Any]] = {}
    for mode in modes:
        with opened(options, mode, max_batch=2, prefix_cache=False, max_model_len=4400) as llm:
            usual, meanwhile, tokens_usual, tokens_meanwhile = _gaps(llm)
        found[mode] = {
            "usual_ms": 1e3 * median(usual),
            "meanwhile_ms": 1e3 * median(meanwhile),
            "ratio": median(meanwhile) / median(usual),
            "usual_ms_a_token": 1e3 * sum(usual) / tokens_usual,
            "meanwhile_ms_a_token": 1e3 * sum(meanwhile) / tokens_meanwhile,
            "fill_seconds": sum(meanwhile),
        }
        found[mode]["ratio_a_token"] = found[mode]["meanwhile_ms_a_token"] / found[mode]["usual_ms_a_token"]
        log.print(f"{mode}: {found[mode]}")
    return found


def _gaps(llm: LLM) -> tuple[list[float], list[float], int, int]:
    """Seconds between deliveries of a row, alone and beside a prompt, and the tokens that came."""
    session, alone = Session(llm), 60
    session.start(Request(0, llm.tokenizer.encode(prompts("humaneval", 1)[0]), greedy(4000)))
    seen: list[tuple[float, int]] = []
    end = 0.0
    while not end:
        for delivery in session.poll(1.0):
            if delivery.number == 1:
                end = delivery.time
            else:
                seen.append((delivery.time, delivery.tokens))
                if len(seen) == alone:
                    session.start(Request(1, long_ids(llm, 4096), greedy(1)))
    session.abort()
    gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(seen)]
    first = alone + 1  # the step under way when the prompt came
    tokens = [count for _, count in seen[1:]]
    return gaps[20 : alone - 1], gaps[first:], sum(tokens[20 : alone - 1]), sum(tokens[first:])


def turns_part(options: argparse.Namespace) -> dict[str, Any]:
    """Time to the first token of a conversation of 3,000 tokens and of its second turn."""
    modes = ["ar", "ssd"] if options.draft else ["ar"]
    found: dict[str, Any] = {}
    for mode in modes:
        with opened(options, mode, max_batch=2, max_model_len=4096) as llm:
            times: dict[str, list[float]] = {"first": [], "second": [], "ratio": []}
            for repeat in range(options.repeats):
                turn = [1000 + repeat, *long_ids(llm, 3000)]
                first = llm.generate(turn, greedy(32))[0]
                question = llm.tokenizer.encode("\nSay the same in one short sentence, and name the author.")
                second = llm.generate([*turn, *first.token_ids, *question], greedy(32))[0]
                pair = [one.metrics.time_to_first_token for one in (first, second)]
                for name, value in zip(times, [*pair, pair[1] / pair[0]], strict=True):
                    times[name].append(value)
                log.print(
                    f"{mode}: {pair[0]:.2f} s, then {pair[1]:.2f} s ({second.metrics.cached_tokens} tokens known)"
                )
            found[mode] = {name: spread(values) for name, values in times.items()}
            found[mode]["cached_tokens"] = second.metrics.cached_tokens
            found[mode]["accepted_of_second_turn"] = second.metrics.acceptance_rate
    return found


def context_part(options: argparse.Namespace) -> dict[str, Any]:
    """AR: decoding at long contexts, beside what the bytes of keys and values allow."""
    found: dict[str, Any] = {}
    with opened(options, "ar", max_batch=1) as llm:
        plan = llm.statistics()["plan"]
        kv_bytes = plan["kv"]["bytes"] / plan["kv"]["tokens"]
        for length in (256, 4096, 8192):
            result = llm.generate([7, *long_ids(llm, length - 1)], greedy(96))[0]
            speeds = [1 / seconds for seconds in result.metrics.round_seconds[8:]]
            found[str(length)] = {
                "tokens_per_second": median(speeds),
                "kv_bytes": kv_bytes * length,
                "prefill_tokens_per_second": result.metrics.prefill_tokens / result.metrics.prefill_seconds,
            }
            log.print(f"context {length}: {found[str(length)]}")
    weights = options.weight_bytes
    short = found["256"]["tokens_per_second"]
    for one in found.values():
        one["allowed"] = short * (weights + found["256"]["kv_bytes"]) / (weights + one["kv_bytes"])
    return found


def prefill_part(options: argparse.Namespace) -> dict[str, Any]:
    """AR: prompts of 512 and 2,048 tokens."""
    found: dict[str, list[float]] = {"512": [], "2048": []}
    with opened(options, "ar", max_batch=1, prefix_cache=False, max_model_len=4096) as llm:
        for _ in range(options.repeats):
            for name, speeds in found.items():
                m = llm.generate(long_ids(llm, int(name)), greedy(1))[0].metrics
                speeds.append(m.prefill_tokens / m.prefill_seconds)
                log.print(f"{name} tokens: {speeds[-1]:.0f} a second")
    return {name: spread(speeds) for name, speeds in found.items()}


SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "schema_version": {"const": "documentation-2.1.0"},
        "programming_language": {"const": "Python"},
        "documentation_format": {"const": "reStructuredText"},
        "function_description": {"type": "string", "maxLength": 30},
        "computational_complexity": {"enum": ["constant", "logarithmic", "linear", "quadratic"]},
        "is_deterministic": {"type": "boolean"},
    },
    "required": [
        "schema_version", "programming_language", "documentation_format", "function_description",
        "computational_complexity", "is_deterministic",
    ],
}  # fmt: skip
"""Names and values that say themselves: most tokens of such an object are forced."""


def forced_share(llm: LLM, results: list[Completion]) -> float:
    """Of how many tokens the grammar left no choice."""
    sampling = Sampling(seed=0, grammar=grammar_text(SamplingParams(json_schema=SCHEMA)))
    forced = 0
    for result in results:
        follower = llm._intake.grammars.follow(sampling, [])
        assert follower is not None
        for token in result.token_ids:
            forced += follower.forced(most=1) == (token,)
            follower.commit([token])
    return forced / sum(len(result.token_ids) for result in results)


def grammar_part(options: argparse.Namespace) -> dict[str, Any]:
    """Tokens a second of JSON that fits a schema, beside free text of the same prompts; ids of SSD against AR's."""
    question = "\n\nDescribe the function above as JSON.\n"
    texts = [prompt + question for prompt in prompts("humaneval", 6)]
    constrained = SamplingParams(temperature=0.0, seed=1, max_tokens=96, json_schema=SCHEMA)
    found: dict[str, Any] = {}
    outputs: dict[str, list[list[int]]] = {}
    for mode in ("ar", "ssd"):
        with opened(options, mode, max_batch=1, max_model_len=1024) as llm:
            llm.generate(texts[0], constrained)  # the vocabulary is read once
            speeds: dict[str, list[float]] = {"schema": [], "free": [], "ratio": []}
            for _ in range(options.repeats):
                pair = []
                for name, params in (("schema", constrained), ("free", greedy(48))):
                    results = [llm.generate(text, params)[0] for text in texts]
                    tokens = sum(len(r.token_ids) - 1 for r in results)
                    pair.append(tokens / sum(r.metrics.decode_seconds for r in results))
                    speeds[name].append(pair[-1])
                    if name == "schema":
                        outputs[mode] = [r.token_ids for r in results]
                        values = [json.loads(r.text) for r in results]
                        assert all(sorted(value) == sorted(SCHEMA["required"]) for value in values)
                        share = forced_share(llm, results)
                speeds["ratio"].append(pair[0] / pair[1])
                log.print(f"{mode}: schema {pair[0]:.1f}, free {pair[1]:.1f} tokens/s")
            found[mode] = {name: spread(each) for name, each in speeds.items()}
            found[mode]["forced_share"] = share
    found["equal_ids"] = outputs["ar"] == outputs["ssd"]
    assert found["equal_ids"]
    return found


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "batch": batch_part, "host": host_part, "beside": beside_part, "turns": turns_part, "context": context_part,
    "prefill": prefill_part, "grammar": grammar_part,
}  # fmt: skip


def rows(record: dict[str, Any]) -> list[list[str]]:
    """The table of a record."""
    parts = {name: part["figures"] for name, part in record.items()}
    found: list[list[str]] = []
    for n, one in parts.get("prefill", {}).items():
        found.append([f"prefill of {n} tokens", f"{one['median']:.0f} tokens/s"])
    for batch, one in parts.get("batch", {}).get("tokens_per_second", {}).items():
        text = f"{one['median']:.1f} ({one['low']:.1f}–{one['high']:.1f}) tokens/s"
        found.append([f"AR, {batch} row{'s' * (batch != '1')} decoding", text])
    if "batch" in parts:
        found.append(["8 rows against one", f"{parts['batch']['ratio_8_to_1']['median']:.2f} ×"])
    for name, one in parts.get("host", {}).get("share", {}).items():
        found.append([f"all but the model, 16 rows, {name}", f"{100 * one['median']:.1f} % of a step"])
    for mode, one in parts.get("beside", {}).items():
        text = f"{one['ratio']:.2f} × ({one['usual_ms']:.0f} → {one['meanwhile_ms']:.0f} ms)"
        found.append([f"{mode.upper()}: gap between deliveries beside a prompt of 4,096 tokens", text])
        found.append([f"{mode.upper()}: the same, a token", f"{one['ratio_a_token']:.2f} ×"])
    for mode, one in parts.get("turns", {}).items():
        text = f"{one['ratio']['median']:.3f} × ({one['first']['median']:.1f} → {one['second']['median']:.2f} s)"
        found.append([f"{mode.upper()}: first token of the second turn, 3,000 tokens", text])
    for length, one in parts.get("context", {}).items():
        text = f"{one['tokens_per_second']:.1f} tokens/s ({one['allowed']:.1f} by bytes)"
        found.append([f"AR at context {length}", text])
    if "grammar" in parts:
        one = parts["grammar"]["ssd"]
        speeds = f"{one['schema']['median']:.1f} against {one['free']['median']:.1f} tokens/s"
        share = f"{100 * one['forced_share']:.0f} % forced"
        found.append(
            [f"SSD: JSON by a schema ({share}) against free text", f"{one['ratio']['median']:.2f} × ({speeds})"]
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--weight-bytes", type=float, default=1.547e9, help="bytes of weights that a pass reads")
    options = parser.parse_args()
    names = options.parts.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; there are {', '.join(PARTS)}")
    parts: dict[str, Any] = json.loads(RESULT.read_text())["parts"] if RESULT.exists() else {}
    about = {"machine": machine(), "versions": versions(), "repeats": options.repeats}
    model = Path(options.target).name
    for name in names:
        parts[name] = {"figures": PARTS[name](options), **about}
        table = {"columns": ["", "measured"], "rows": rows(parts)}
        note = f"{model}, int8, one core for the target; medians of {options.repeats} interleaved repeats"
        write_record({"table": table, "note": note, **about, "parts": parts}, RESULT)


if __name__ == "__main__":
    main()
