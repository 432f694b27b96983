"""How much rounding costs: perplexity of a model on three texts, for each kind of weights, beside float32.

    python benchmarks/perplexity.py --model A.gguf --model B.gguf

`benchmarks/prompts` (or --data) holds one folder a set, each with a prompts.jsonl. A set's text is its prompts joined
by blank lines, cut to the first 1,000 tokens; perplexity is exp of the mean negative log probability of every token but
the first. float32 means dequantised weights with float32 activations. Models given are measured anew, rows of other
models stay in the record.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

import torch

from saguaro.bench.machine import machine, versions
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.build import build_model, make_ops
from saguaro.models.causal_lm import CausalLM
from saguaro.models.checkpoint import Checkpoint, open_checkpoint
from saguaro.records import read_record, write_record

SETS = ("humaneval", "mt_bench", "gsm8k_test")
KINDS = ("float32", "bfloat16", "int8", "int4")
TOKENS, CHUNK, PAGE = 1000, 125, 64
NOTE = "Perplexity of the first 1,000 tokens of each set's prompts; float32: dequantised weights, float32 activations."


def text_of(data: Path, name: str) -> str:
    """The prompts of one set, joined by blank lines."""
    lines = (data / name / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    return "\n\n".join(json.loads(line)["prompt"] for line in lines if line.strip())


def perplexity(model: CausalLM, ids: list[int]) -> float:
    """exp of the mean negative log probability of ids[1:], run in chunks as a prompt is."""
    pages = -(-len(ids) // PAGE)
    runner = Runner(model, KVPool(model.config, pages * PAGE, model.pool_dtype), PAGE)
    total = 0.0
    for start in range(0, len(ids), CHUNK):
        part = ids[start : start + CHUNK]
        span = Span(
            tokens=part,
            start=start,
            pages=list(range(pages)),
            slots=list(range(start, start + len(part))),
            wanted=len(part),
        )
        logits_TV = runner.run([span])
        following = torch.tensor(ids[start + 1 : start + 1 + len(part)])
        log_law_TV = logits_TV[: len(following)].double().log_softmax(-1)
        total -= log_law_TV.gather(1, following[:, None]).sum().item()
    return math.exp(total / (len(ids) - 1))


def measure(checkpoint: Checkpoint, name: str, kind: str, texts: dict[str, list[int]]) -> dict[str, Any]:
    """One row: a model, a kind, a perplexity for each set."""
    start = time.monotonic()
    model = build_model(checkpoint, make_ops("native", kind), max_positions=TOKENS)
    row: dict[str, Any] = {"model": name, "kind": kind}
    row |= {name_of_set: perplexity(model, ids) for name_of_set, ids in texts.items()}
    sys.stderr.write(f"{row} in {time.monotonic() - start:.0f} s\n")
    return row


def table(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What README shows: perplexities, and their mean ratio to float32."""
    exact = {run["model"]: run for run in runs if run["kind"] == "float32"}
    rows = []
    for run in runs:
        base = exact.get(run["model"])
        ratios = [run[name] / base[name] for name in SETS] if base else []
        run["ratio"] = mean(ratios) if ratios else None
        run["ratio_geometric"] = geometric_mean(ratios) if ratios else None
        shown = "–" if run["ratio"] is None else f"{run['ratio']:.4f}"
        rows.append([run["model"], run["kind"], *(f"{run[name]:.3f}" for name in SETS), shown])
    return {"columns": ["model", "weights", *SETS, "mean ratio to float32"], "rows": rows}


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description="Perplexity of each kind of weights.")
    parser.add_argument(
        "--data", type=Path, default=Path(__file__).parent / "prompts", help="folder with one folder a set"
    )
    parser.add_argument("--model", action="append", required=True, help="a model, as for saguaro itself; repeatable")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "perplexity.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kinds = arguments.kinds.split(",")
    runs = read_record(arguments.json)["runs"] if arguments.json.exists() else []
    for source in arguments.model:
        checkpoint, name = open_checkpoint(source), Path(source).stem
        tokenizer = checkpoint.tokenizer()
        texts = {name_of_set: tokenizer.encode(text_of(arguments.data, name_of_set))[:TOKENS] for name_of_set in SETS}
        runs = [run for run in runs if run["model"] != name or run["kind"] not in kinds]
        runs += [measure(checkpoint, name, kind, texts) for kind in kinds]
        runs.sort(key=lambda run: (run["model"], KINDS.index(run["kind"])))
        config = {"sets": list(SETS), "tokens": TOKENS}
        record = {"machine": machine(), "versions": versions(), "config": config, "note": NOTE, "runs": runs}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        write_record(record | {"table": table(runs)}, arguments.json)


if __name__ == "__main__":
    main()
