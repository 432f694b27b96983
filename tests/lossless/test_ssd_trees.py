"""Chains with siblings in SSD give the token ids of AR: all hits, all misses and a mixture, sizes, temperatures,
batches, gears, penalties, little room, both kinds of verification; and under `rejection` the target's law.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.lossless.conftest import PROMPTS, opened, params
from tests.lossless.test_law import DRAFT as TABLE_DRAFT
from tests.lossless.test_law import FAN_OUTS, LENGTH, TARGET, p_value, target_law, transitions
from tests.lossless.test_trees import LONG, expected

from saguaro import LLM, Completion, SamplingParams

slow = pytest.mark.slow
KINDS: dict[str, dict[str, Any]] = {
    "hit": {"drafter": "close", "pacing": "lockstep", "fan_out": [12, 12, 12, 12], "budget": 48},
    "miss": {"drafter": "close", "fan_out": "none"},
    "mixed": {"drafter": "mixed", "pacing": "lockstep"},
    "free": {},
}
SHAPES: tuple[tuple[Any, int], ...] = ((6, 3), ("auto", 3), (16, 5), (4, 1))


def check(results: list[Completion], wanted: list[list[int]]) -> None:
    """The ids of AR, and counts that add up."""
    assert [r.token_ids for r in results] == wanted
    for r in results:
        m = r.metrics
        assert len(r.token_ids) == 1 + m.rounds + m.accepted
        assert m.verified <= m.drafted
        assert m.hits + m.misses == m.rounds


@pytest.mark.parametrize(
    ("kind", "dtype", "verification", "shapes"),
    [
        ("hit", "float32", "shared_noise", ((12, 3),)),
        ("miss", "float32", "shared_noise", ((12, 3),)),
        ("mixed", "int8", "shared_noise", (("auto", 3),)),
        ("mixed", "float32", "rejection", ((12, 3),)),
        pytest.param("mixed", "float32", "shared_noise", SHAPES, marks=slow),
        pytest.param("mixed", "bfloat16", "rejection", SHAPES, marks=slow),
        pytest.param("free", "bfloat16", "shared_noise", SHAPES, marks=slow),
        pytest.param("free", "int8", "rejection", SHAPES, marks=slow),
        pytest.param("hit", "int8", "rejection", ((12, 3),), marks=slow),
        pytest.param("miss", "bfloat16", "rejection", ((12, 3),), marks=slow),
    ],
)
def test_tokens_equal_ar(kind: str, dtype: str, verification: str, shapes: tuple[tuple[Any, int], ...]) -> None:
    options: dict[str, Any] = {"budget": 12, **KINDS[kind]}
    with opened("ssd", dtype, "loopback", lookahead=3, tree=4, verification=verification, **options) as llm:
        for tree, lookahead in shapes:
            llm.configure(tree=tree, **({} if "fan_out" in options else {"lookahead": lookahead}))
            for temperature in (0.0, 1.0) if verification == "shared_noise" else (0.0,):
                known = expected(dtype, temperature)
                for prompts, wanted in ((PROMPTS, known[:5]), (LONG[2:3], known[7:8]), (LONG, known[5:])):
                    results = llm.generate(prompts, params(temperature))
                    check(results, wanted)
                    hits, misses = sum(r.metrics.hits for r in results), sum(r.metrics.misses for r in results)
                    if kind == "hit" and dtype == "float32":
                        assert misses <= 2 * len(results)  # the last rounds may have no room for a proposal
                    elif kind == "miss":
                        assert hits == 0
                    elif kind == "mixed" and lookahead > 1 and len(results) > 1:
                        assert hits > 0
                        assert misses > 0


def test_siblings_take_a_walk_further_and_their_outcomes_are_prepared_for() -> None:
    """The draft is wrong at every third place, with the right token as its second guess. A chain of one token gives
    three tokens in two rounds then, one with siblings four.
    """
    rounds = {}
    with opened("ssd", "float32", "loopback", drafter="close", fan_out=[12, 12], pacing="lockstep") as llm:
        for tree in (0, 4):
            llm.configure(tree=tree)
            results = llm.generate(LONG, params(0.0, max_tokens=24))
            rounds[tree] = sum(r.metrics.rounds for r in results)
            assert sum(r.metrics.misses for r in results) <= len(results)  # the last round may have no room
    assert rounds[4] < 0.8 * rounds[0]


def test_penalties_bans_and_log_probabilities_beside_the_trunk() -> None:
    options = {"repetition_penalty": 1.4, "frequency_penalty": 0.3, "bad_words": [], "logit_bias": {5: 1.5}}
    asked = SamplingParams(temperature=0.8, seed=3, max_tokens=14, ignore_eos=True, logprobs=2, **options)
    with opened("ar", "float32", "loopback") as llm:
        wanted = llm.generate(LONG[1:4], asked)
    with opened("ssd", "float32", "loopback", drafter="close", lookahead=3, budget=9, tree=9, pacing="lockstep") as llm:
        found = llm.generate(LONG[1:4], asked)
    assert [r.token_ids for r in found] == [r.token_ids for r in wanted]
    assert [r.logprobs for r in found] == [r.logprobs for r in wanted]


@pytest.mark.parametrize(
    "short",
    [
        {"kv_pages": 30, "draft_kv_pages": 14},
        pytest.param({"draft_kv_pages": 12}, marks=slow),
        pytest.param({"draft_kv_pages": 30}, marks=slow),
        pytest.param({"max_step_tokens": 12}, marks=slow),
    ],
)
def test_where_there_is_little_room(short: dict[str, int]) -> None:
    with opened("ssd", "float32", "loopback", drafter="mixed", lookahead=4, budget=9, tree=12, **short) as llm:
        results = llm.generate([*PROMPTS[:2], *LONG], params(1.0))
    assert [r.token_ids for r in results] == [*expected("float32", 1.0)[:2], *expected("float32", 1.0)[5:]]


@pytest.mark.slow
def test_a_request_may_ask_for_fewer_tokens() -> None:
    with opened("ssd", "float32", "loopback", drafter="close", lookahead=3, tree=8, pacing="lockstep") as llm:
        for most in (0, 2):
            asked = SamplingParams(temperature=1.0, seed=5, max_tokens=14, ignore_eos=True, speculation=most)
            [result] = llm.generate(PROMPTS[0], asked)
            assert result.token_ids == expected("float32", 1.0)[0]
            assert result.metrics.drafted <= most * result.metrics.rounds


@pytest.mark.slow
@pytest.mark.parametrize("fallback", ["own_row", "ngram", "none", "random", "neural"])
def test_what_answers_a_miss(fallback: str) -> None:
    for verification, temperature in (("shared_noise", 1.0), ("rejection", 0.0)):
        with opened(
            "ssd", "float32", "loopback", drafter="mixed", lookahead=4, budget=3, tree=12, fallback=fallback,
            verification=verification,
        ) as llm:  # fmt: skip
            results = llm.generate(LONG, params(temperature))
        assert [r.token_ids for r in results] == expected("float32", temperature)[5:]


@pytest.mark.slow
def test_gears_and_chains_in_between() -> None:
    changes: tuple[dict[str, Any], ...] = (
        {"mode": "ar"}, {"mode": "sd"}, {"tree": 0}, {"mode": "ssd"}, {"tree": "auto"}, {"lookahead": 0},
        {"lookahead": 4, "fan_out": "geometric"}, {"tree": 9}, {"fan_out": "token_tree"}, {"fan_out": "single_branch"},
    )  # fmt: skip
    with opened("ssd", "float32", "loopback", drafter="mixed", lookahead=3, budget=8, tree=6) as llm:
        for change in changes:
            llm.configure(**change)
            results = llm.generate(PROMPTS, params(1.0))
            assert [r.token_ids for r in results] == expected("float32", 1.0)[:5], change


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("verification", ["shared_noise", "rejection"])
def test_in_processes_of_their_own(verification: str) -> None:
    temperature = 1.0 if verification == "shared_noise" else 0.0
    with opened(
        "ssd", "float32", "processes", drafter="mixed", lookahead=4, budget=8, tree=12, verification=verification
    ) as llm:
        for tree in (12, "auto"):
            llm.configure(tree=tree)
            results = llm.generate([*PROMPTS, *LONG], params(temperature))
            assert [r.token_ids for r in results] == expected("float32", temperature)
        llm.configure(mode="sd")
        results = llm.generate(PROMPTS, params(temperature))
        assert [r.token_ids for r in results] == expected("float32", temperature)[:5]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "saguaro_c"), [("hit", None), ("miss", None), ("mixed", None), ("mixed", 0.4)])
def test_rejection_follows_the_law(kind: str, saguaro_c: float | None) -> None:
    temperature = 0.8
    with LLM(
        TARGET, TABLE_DRAFT, mode="ssd", channel="loopback", dtype="float32", verification="rejection",
        pacing="lockstep", fan_out=FAN_OUTS[kind], saguaro_c=saguaro_c, tree=5, max_batch=64, max_model_len=128,
        page_size=16,
    ) as llm:  # fmt: skip
        counts = transitions(llm, 3_840 if kind == "hit" else 8_000, temperature)
        asked = SamplingParams(temperature=temperature, max_tokens=LENGTH, seed=1, ignore_eos=True)
        [one] = llm.generate([1], asked)
        if kind == "hit":
            assert one.metrics.misses <= 1
        elif kind == "miss":
            assert one.metrics.hits == 0
        assert one.metrics.drafted > one.metrics.verified
        assert p_value(counts, target_law(llm, temperature)) > 0.001
