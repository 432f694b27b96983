"""Real models: a pairwise covering array of mode x K x batch x temperature x dtype x channel, 8 prompts x 64 tokens.

The Qwen pair in int8 and bfloat16, SmolLM2 with its own first layers as the draft in all three. Token ids equal AR's.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from saguaro import LLM, SamplingParams

pytestmark = [pytest.mark.slow, pytest.mark.processes]

PROMPTS = Path(__file__).parents[2] / "benchmarks" / "prompts" / "humaneval" / "prompts.jsonl"
MODES: dict[str, dict[str, Any]] = {
    "sd": {"mode": "sd"},
    "hit": {"mode": "ssd", "pacing": "lockstep", "drafter": "saguaro.testing.drafters:OracleDrafter"},
    "miss": {"mode": "ssd", "fan_out": "none"},
    "mixed": {"mode": "ssd"},
}
FACTORS: dict[str, tuple[Any, ...]] = {
    "mode": tuple(MODES),
    "lookahead": (1, 2, 4, 7),
    "batch": (1, 5),
    "temperature": (0.0, 1.0),
    "dtype": ("int8", "bfloat16", "float32"),
    "channel": ("loopback", "processes"),
}
PAIRS = {
    "qwen": (
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        ("int8", "bfloat16"),
    ),
    "smollm2": ("smollm2-135m-instruct-q4_1.gguf", None, ("int8", "bfloat16", "float32")),
}


def covering(factors: dict[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Few rows in which every two values of every two factors meet: each row takes the most pairs still open."""
    names = list(factors)
    open_pairs = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2) for x in factors[a] for y in factors[b]}
    rows = []
    while open_pairs:
        best = max(
            (dict(zip(names, values, strict=True)) for values in itertools.product(*factors.values())),
            key=lambda row: len(open_pairs & set(_pairs(row))),
        )
        open_pairs -= set(_pairs(best))
        rows.append(best)
    return rows


def _pairs(row: dict[str, Any]) -> Iterator[tuple[tuple[str, Any], tuple[str, Any]]]:
    return itertools.combinations(row.items(), 2)


def cases() -> list[Any]:
    made = []
    for pair, (_, _, dtypes) in PAIRS.items():
        for row in covering({**FACTORS, "dtype": dtypes}):
            made.append(pytest.param(pair, row, id="-".join([pair, *map(str, row.values())])))
    return made


def test_the_array_covers_every_pair() -> None:
    rows = covering(FACTORS)
    assert len(rows) < 24
    for a, b in itertools.combinations(FACTORS, 2):
        assert {(r[a], r[b]) for r in rows} == set(itertools.product(FACTORS[a], FACTORS[b]))


@functools.cache
def prompts() -> list[str]:
    return [json.loads(line)["prompt"] for line in PROMPTS.read_text().splitlines()[:8]]


def params(temperature: float) -> SamplingParams:
    return SamplingParams(temperature=temperature, max_tokens=64, seed=9, ignore_eos=True)


class Wanted(NamedTuple):
    """What AR says: outputs alone, and behind their prompts."""

    outputs: list[list[int]]
    texts: list[list[int]]


@functools.cache
def expected(target: str, dtype: str, temperature: float) -> Wanted:
    with LLM(target, mode="ar", dtype=dtype, target_device="cpu:0", max_model_len=1024) as llm:
        results = [llm.generate(prompt, params(temperature))[0] for prompt in prompts()]
    return Wanted([r.token_ids for r in results], [r.prompt_token_ids + r.token_ids for r in results])


@pytest.mark.parametrize(("pair", "row"), cases())
def test_tokens_equal_ar(pair: str, row: dict[str, Any], models_directory: Path, tmp_path: Path) -> None:
    target_name, draft_name, _ = PAIRS[pair]
    target = str(models_directory / target_name)
    draft = f"toy:truncate=6:{target}" if draft_name is None else str(models_directory / draft_name)
    if not Path(target).exists():
        pytest.skip(f"{target_name} is missing; run saguaro pull all")
    options = dict(MODES[row["mode"]])
    wanted = expected(target, row["dtype"], row["temperature"])
    if row["mode"] == "hit":
        texts = tmp_path / "texts.json"
        texts.write_text(json.dumps(wanted.texts))
        options["drafter_options"] = {"texts": str(texts), "shortlist": None}
    with LLM(
        target, draft, dtype=row["dtype"], lookahead=row["lookahead"], budget=row["lookahead"] + 3, max_batch=5,
        max_model_len=1024, channel=row["channel"], target_device="cpu:0", **options,
    ) as llm:  # fmt: skip
        results = []
        for start in range(0, 8, row["batch"]):
            results += llm.generate(prompts()[start : start + row["batch"]], params(row["temperature"]))
        assert [r.token_ids for r in results] == wanted.outputs
        hits = sum(r.metrics.hits for r in results)
        if row["mode"] == "hit":
            misses = sum(r.metrics.misses for r in results)
            assert misses <= len(results)  # the last round of a text may have no room for a proposal
        elif row["mode"] == "miss":
            assert hits == 0
