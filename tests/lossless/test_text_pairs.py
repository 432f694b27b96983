"""Pairs with different tokenizers: in every mode the target says what it says alone, whatever the draft reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lossless.conftest import SIZES
from tests.lossless.test_law import LENGTH, p_value, target_law, transitions
from tests.models.text_pairs import BYTE_TARGET, merged, shuffled

from saguaro import LLM, SamplingParams

PROMPTS = [list(b"the tab"), list(b"na\xc3\xafve caf\xc3"), [97], list(b"3,141"), [104, 105, 256, 32]]
LETTERS = "toy:llama?seed=1&vocab=48&layers=2"
"""A target that has letters, some of them of two bytes."""
SYLLABLES = "toy:llama?seed=1&vocab=512&layers=2"
"""One that has syllables, too."""
DRAFTS: dict[str, Callable[[Path], str]] = {
    "same text, other ids": shuffled,
    "near": lambda folder: shuffled(folder, BYTE_TARGET + "&noise=0.15"),
    "merges": merged,
}


def params(temperature: float, **more: Any) -> SamplingParams:
    return SamplingParams(temperature=temperature, max_tokens=14, seed=5, ignore_eos=True, **more)


@pytest.fixture(scope="module")
def alone() -> dict[float, list[list[int]]]:
    with LLM(BYTE_TARGET, mode="ar", dtype="float32", channel="loopback", **SIZES) as llm:
        return {t: [c.token_ids for c in llm.generate(PROMPTS, params(t))] for t in (0.0, 1.0)}


def run(
    alone: dict[float, list[list[int]]], source: str, mode: str, exact: tuple[float, ...] = (0.0, 1.0), **options: Any
) -> dict[str, int]:
    """Generate at both temperatures; ids must be AR's at those in `exact`."""
    totals = dict.fromkeys(("accepted", "verified", "hits", "misses"), 0)
    sizes = SIZES | {"mode": mode, "dtype": "float32", "channel": "loopback", "lookahead": 3, "target_device": "cpu:0"}
    with LLM(BYTE_TARGET, source, drafter="text", **(sizes | options)) as llm:
        for temperature, tokens in alone.items():
            results = llm.generate(PROMPTS, params(temperature))
            assert temperature not in exact or [c.token_ids for c in results] == tokens
            for name in totals:
                totals[name] += sum(getattr(c.metrics, name) or 0 for c in results)
        said = llm.statistics()["warnings"]
        assert all("does not fit" in each for each in said)  # a random draft rightly is said not to
    return totals


LOCKSTEP = {"pacing": "lockstep", "budget": 16}


@pytest.mark.parametrize("kind", DRAFTS)
@pytest.mark.parametrize("mode", ["sd", "ssd"])
def test_exact(tmp_path: Path, alone: dict[float, list[list[int]]], kind: str, mode: str) -> None:
    totals = run(alone, DRAFTS[kind](tmp_path), mode, **(LOCKSTEP if mode == "ssd" else {}))
    if kind == "same text, other ids":
        assert totals["accepted"] == totals["verified"] > 0, "a draft that says the same text is always right"
        assert totals["misses"] <= (2 * len(PROMPTS) if mode == "ssd" else 0)
    elif kind == "near":
        assert 0 < totals["accepted"] < totals["verified"]
        assert mode == "sd" or min(totals["hits"], totals["misses"]) > 0
    else:
        assert totals["accepted"] < totals["verified"]


def test_exact_when_every_outcome_is_missed(tmp_path: Path, alone: dict[float, list[list[int]]]) -> None:
    totals = run(alone, DRAFTS["near"](tmp_path), "ssd", fan_out="none", fallback="neural")
    assert totals["hits"] == 0 < totals["accepted"]


def test_exact_with_trees(tmp_path: Path, alone: dict[float, list[list[int]]]) -> None:
    assert run(alone, DRAFTS["near"](tmp_path), "sd", tree=7)["accepted"] > 0


@pytest.mark.parametrize("mode", ["sd", "ssd"])
def test_rejection(tmp_path: Path, alone: dict[float, list[list[int]]], mode: str) -> None:
    """At temperature 0 the ids are AR's; with equal laws nothing is ever rejected at any temperature."""
    source = shuffled(tmp_path)
    totals = run(alone, source, mode, (0.0,), verification="rejection", **(LOCKSTEP if mode == "ssd" else {}))
    assert totals["accepted"] == totals["verified"] > 0


@pytest.mark.slow
@pytest.mark.processes
def test_exact_in_processes_of_their_own(tmp_path: Path, alone: dict[float, list[list[int]]]) -> None:
    totals = run(alone, DRAFTS["near"](tmp_path), "ssd", channel="processes", dtype="float32", max_batch=5, **LOCKSTEP)
    assert totals["accepted"] > 0


@pytest.mark.parametrize(
    "options",
    [
        {"kv_pages": 12, "draft_kv_pages": 5},
        pytest.param({"max_batch": 2, "prefix_cache": False}, marks=pytest.mark.slow),
    ],
)
def test_a_draft_without_room_costs_no_text(
    tmp_path: Path, alone: dict[float, list[list[int]]], options: dict[str, Any]
) -> None:
    run(alone, merged(tmp_path), "ssd", budget=6, **options)


@pytest.mark.parametrize("target", [LETTERS, SYLLABLES])
def test_what_two_tokens_of_the_draft_make(target: str) -> None:
    """A draft of bytes: letters of two bytes, and syllables, are known to it in pieces."""
    sizes: dict[str, Any] = SIZES | {"dtype": "float32", "channel": "loopback", "target_device": "cpu:0"}
    asked = [params(t) for t in (0.0, 1.0)]
    with LLM(target, mode="ar", **sizes) as llm:
        wanted = [[c.token_ids for c in llm.generate([[1, 2, 40], [7]], one)] for one in asked]
    with LLM(
        target,
        "toy:llama?seed=2&vocab=300",
        mode="ssd",
        drafter="text",
        lookahead=3,
        budget=8,
        pacing="lockstep",
        **sizes,
    ) as llm:
        assert [[c.token_ids for c in llm.generate([[1, 2, 40], [7]], one)] for one in asked] == wanted


def test_penalties_and_grammars_read_the_targets_ids(tmp_path: Path) -> None:
    source = shuffled(tmp_path)
    sizes: dict[str, Any] = SIZES | {"dtype": "float32", "channel": "loopback", "target_device": "cpu:0"}
    asked = [
        params(1.0, repetition_penalty=1.3, presence_penalty=0.4, logit_bias={101: 2.0}),
        SamplingParams(temperature=1.0, max_tokens=14, seed=5, regex="[a-f]{4}(the|tab) [0-9]+x"),
    ]
    with LLM(BYTE_TARGET, mode="ar", **sizes) as llm:
        wanted = [llm.generate([PROMPTS[0]], one)[0].token_ids for one in asked]
    with LLM(
        BYTE_TARGET, source, drafter="text", mode="ssd", lookahead=3, budget=12, pacing="lockstep", **sizes
    ) as llm:
        done = [llm.generate([PROMPTS[0]], one)[0] for one in asked]
        assert [c.token_ids for c in done] == wanted
        missed = [c.metrics.verified - c.metrics.accepted for c in done]
        assert missed == [0, 1], "only the end of the text, which a grammar makes certain, is no accepted token"


@pytest.mark.slow
def test_rejection_follows_the_targets_law() -> None:
    """A table of letters, and a table of bytes as its draft: chi-square over all transitions."""
    target, draft = (f"toy:markov?seed={seed}&vocab={vocab}&scale=1.5" for seed, vocab in ((1, 16), (2, 300)))
    with LLM(
        target, draft, drafter="text", mode="ssd", channel="loopback", dtype="float32", verification="rejection",
        pacing="lockstep", fan_out=[2, 1, 3], max_batch=64, max_model_len=128, page_size=16, target_device="cpu:0",
    ) as llm:  # fmt: skip
        counts = transitions(llm, 64 * LENGTH, 0.8)
        assert p_value(counts, target_law(llm, 0.8)) > 0.001


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("mode", ["sd", "ssd"])
def test_real_pair(models_directory: Path, mode: str) -> None:
    """SmolLM2 as the draft of a Qwen coder: text of prompts about code, equal to AR, and some of it foreseen."""
    target, draft = (
        models_directory / name
        for name in ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "smollm2-135m-instruct-q4_1.gguf")
    )
    if not (target.exists() and draft.exists()):
        pytest.skip("the models are missing; run saguaro pull all")
    file = Path(__file__).parents[2] / "benchmarks" / "prompts" / "humaneval" / "prompts.jsonl"
    prompts = [json.loads(line)["prompt"] for line in file.read_text().splitlines()[:4]]
    asked = SamplingParams(temperature=0.0, max_tokens=64, ignore_eos=True)
    sizes: dict[str, Any] = {"target_device": "cpu:0", "max_model_len": 1024, "max_batch": 1}
    with LLM(str(target), mode="ar", **sizes) as llm:
        wanted = [llm.generate(prompt, asked)[0].token_ids for prompt in prompts]
    with LLM(str(target), str(draft), drafter="text", mode=mode, lookahead=3, **sizes) as llm:
        done = [llm.generate(prompt, asked)[0] for prompt in prompts]
    assert [c.token_ids for c in done] == wanted
    assert sum(c.metrics.accepted for c in done) > 0.3 * sum(c.metrics.verified for c in done)
