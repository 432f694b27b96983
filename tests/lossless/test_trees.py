"""Proposal trees in SD give the token ids of AR: sizes, depths, batches, temperatures, pages, penalties, both kinds of
verification; and under `rejection` the target's law.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
from tests.lossless.conftest import PROMPTS, opened, params
from tests.lossless.test_law import DRAFT as TABLE_DRAFT
from tests.lossless.test_law import LENGTH, TARGET, p_value, target_law, transitions

from saguaro import LLM, Completion, SamplingParams
from saguaro.errors import ConfigError

LONG = [[(7 * i + j) % 48 for j in range(length)] for i, length in enumerate((61, 62, 63, 64, 90))]
"""Prompts about the edge of a block of keys, so that paths lie across it."""
SHAPES = ((4, 3), (16, 4))
slow = pytest.mark.slow


@functools.cache
def expected(dtype: str, temperature: float) -> list[list[int]]:
    with opened("ar", dtype, "loopback") as llm:
        return [llm.generate(prompt, params(temperature))[0].token_ids for prompt in (*PROMPTS, *LONG)]


@pytest.mark.parametrize(
    ("dtype", "script", "verification", "shapes"),
    [
        ("float32", "close", "shared_noise", ((7, 4),)),
        ("int8", None, "rejection", ((7, 3),)),
        pytest.param("float32", "close", "shared_noise", SHAPES, marks=slow),
        pytest.param("float32", "mixed", "shared_noise", ((3, 1), (7, 2), ("auto", 4)), marks=slow),
        pytest.param("int8", "mixed", "shared_noise", (*SHAPES, ("auto", 7)), marks=slow),
        pytest.param("bfloat16", None, "shared_noise", (*SHAPES, (32, 5)), marks=slow),
        pytest.param("bfloat16", "close", "rejection", SHAPES, marks=slow),
    ],
)
def test_tokens_equal_ar(
    dtype: str, script: str | None, verification: str, shapes: tuple[tuple[Any, int], ...]
) -> None:
    with opened("sd", dtype, "loopback", drafter=script, lookahead=4, tree=4, verification=verification) as llm:
        for tree, lookahead in shapes:
            llm.configure(tree=tree, lookahead=lookahead)
            for temperature in (0.0, 1.0) if verification == "shared_noise" else (0.0,):
                known = expected(dtype, temperature)
                for prompts, wanted in ((LONG[2:3], known[7:8]), (PROMPTS, known[:5]), (LONG, known[5:])):
                    results = llm.generate(prompts, params(temperature))
                    assert [r.token_ids for r in results] == wanted
                    for r in results:
                        assert len(r.token_ids) == 1 + r.metrics.rounds + r.metrics.accepted
                        assert r.metrics.verified <= r.metrics.drafted


def rates(results: list[Completion]) -> tuple[float, float]:
    """Accepted over compared tokens, and tokens a round."""
    accepted, rounds = sum(r.metrics.accepted for r in results), sum(r.metrics.rounds for r in results)
    return accepted / sum(r.metrics.verified for r in results), 1 + accepted / rounds


def test_more_guesses_take_a_walk_further() -> None:
    with opened("sd", "float32", "loopback", lookahead=2) as llm:
        chain = rates(llm.generate(LONG, params(1.0)))
        llm.configure(tree=16)
        tree = rates(llm.generate(LONG, params(1.0)))
    assert tree[0] > chain[0] + 0.1
    assert tree[1] > chain[1] + 0.1


def test_penalties_bans_and_log_probabilities_along_a_path() -> None:
    options = {"repetition_penalty": 1.4, "frequency_penalty": 0.3, "bad_words": [], "logit_bias": {5: 1.5}}
    asked = SamplingParams(temperature=0.8, seed=3, max_tokens=14, ignore_eos=True, logprobs=2, **options)
    with opened("ar", "float32", "loopback") as llm:
        wanted = llm.generate(LONG, asked)
    with opened("sd", "float32", "loopback", drafter="close", lookahead=3, tree=10) as llm:
        found = llm.generate(LONG, asked)
    assert [r.token_ids for r in found] == [r.token_ids for r in wanted]
    assert [r.logprobs for r in found] == [r.logprobs for r in wanted]


@pytest.mark.parametrize(
    "short",
    [
        {"kv_pages": 30},
        pytest.param({"draft_kv_pages": 12}, marks=slow),
        pytest.param({"max_step_tokens": 12}, marks=slow),
    ],
)
def test_where_there_is_little_room(short: dict[str, int]) -> None:
    with opened("sd", "float32", "loopback", drafter="mixed", lookahead=4, tree=12, **short) as llm:
        results = llm.generate([*PROMPTS[:2], *LONG], params(1.0))
    assert [r.token_ids for r in results] == [*expected("float32", 1.0)[:2], *expected("float32", 1.0)[5:]]


def test_a_request_may_ask_for_fewer_tokens() -> None:
    with opened("sd", "float32", "loopback", drafter="close", lookahead=3, tree=8) as llm:
        for most in (0, 2):
            asked = SamplingParams(temperature=1.0, seed=5, max_tokens=14, ignore_eos=True, speculation=most)
            [result] = llm.generate(PROMPTS[0], asked)
            assert result.token_ids == expected("float32", 1.0)[0]
            assert result.metrics.drafted <= most * result.metrics.rounds


@pytest.mark.parametrize("verification", ["shared_noise", pytest.param("rejection", marks=slow)])
def test_where_times_decide(verification: str) -> None:
    """Which levels and nodes a tree has depends on clocks then; the text does not."""
    temperature = 1.0 if verification == "shared_noise" else 0.0
    with opened("sd", "float32", "loopback", lookahead="auto", tree="auto", verification=verification) as llm:
        for prompts, wanted in (([LONG[0]], slice(5, 6)), (PROMPTS[:3], slice(0, 3))):
            results = llm.generate(prompts, params(temperature))
            assert [r.token_ids for r in results] == expected("float32", temperature)[wanted]


@pytest.mark.slow
def test_gears_and_chains_in_between() -> None:
    with opened("sd", "float32", "loopback", drafter="mixed", lookahead=3, tree=6) as llm:
        for changes in ({"mode": "ar"}, {"mode": "sd"}, {"tree": 0}, {"tree": "auto"}, {"lookahead": 0}):
            llm.configure(**changes)
            results = llm.generate(PROMPTS, params(1.0))
            assert [r.token_ids for r in results] == expected("float32", 1.0)[:5]


def test_trees_are_refused_where_no_mode_is_named() -> None:
    with pytest.raises(ConfigError, match="modes 'sd' and 'ssd'"), opened("auto", "float32", "loopback", tree=4):
        pass


@pytest.mark.slow
@pytest.mark.processes
def test_in_a_process_of_its_own() -> None:
    with opened("sd", "float32", "processes", drafter="mixed", lookahead="auto", tree="auto") as llm:
        results = llm.generate([*PROMPTS, *LONG], params(1.0))
    assert [r.token_ids for r in results] == expected("float32", 1.0)


@pytest.mark.slow
def test_rejection_follows_the_law() -> None:
    with LLM(
        TARGET, TABLE_DRAFT, mode="sd", channel="loopback", dtype="float32", verification="rejection", lookahead=2,
        tree=6, max_batch=64, max_model_len=128, page_size=16,
    ) as llm:  # fmt: skip
        counts = transitions(llm, 8_000, 0.8)
        asked = SamplingParams(temperature=0.8, max_tokens=LENGTH, seed=1, ignore_eos=True)
        [one] = llm.generate([1], asked)
        assert p_value(counts, target_law(llm, 0.8)) > 0.001
    assert one.metrics.accepted > 0
