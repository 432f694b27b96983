"""Reports about batches and metrics: rows that move, choices of one prompt, and numbers that add up."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.reports.conftest import check_counters, engine_arguments

from saguaro import LLM, SamplingParams


@pytest.fixture(scope="module")
def alone() -> Any:
    with LLM(**engine_arguments("ar", prefix_cache=False)) as llm:
        yield lambda prompt, params: llm.generate(prompt, params)[0].token_ids


def test_B59_B60_rows_join_and_leave_in_every_round(mode: str, alone: Any) -> None:
    """Sixteen places, requests of all lengths: each answer is its own, whatever row and round it was in."""
    random_ = random.Random(4)
    prompts = [[random_.randrange(48) for _ in range(random_.randint(1, 9))] for _ in range(40)]
    params = [
        SamplingParams(
            temperature=random_.choice([0.0, 1.0]), seed=i, max_tokens=random_.randint(1, 30), ignore_eos=True
        )
        for i in range(40)
    ]
    with LLM(**engine_arguments(mode, max_batch=16)) as llm:
        results = llm.generate(prompts, params)
    assert [r.token_ids for r in results] == [alone(*pair) for pair in zip(prompts, params, strict=True)]


def test_B60_equal_outcomes_of_two_rows_do_not_share_an_answer(mode: str, alone: Any) -> None:
    """Rows that are in the same round, at the same length and with the same bonus token, and go on differently."""
    bias = {7: 60.0}
    params = [SamplingParams(temperature=1.0, seed=s, max_tokens=30, ignore_eos=True) for s in (1, 2)]
    prompts = [[1, 2, 3, 7], [4, 5, 6, 7]]
    with LLM(**engine_arguments(mode)) as llm:
        results = llm.generate(prompts, params)
        assert [r.token_ids for r in results] == [alone(*pair) for pair in zip(prompts, params, strict=True)]
        forced = [SamplingParams(temperature=0.0, max_tokens=10, ignore_eos=True, logit_bias=bias)] * 2
        assert [r.token_ids for r in llm.generate(prompts, forced)] == [[7] * 10] * 2


def test_B68_several_choices(llm: LLM) -> None:
    """Three choices: indices 0 to 2, each ends once, the texts differ, the prompt is computed once."""
    params = SamplingParams(n=3, temperature=1.0, seed=2, max_tokens=20, ignore_eos=True)
    results = llm.generate([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11, 12], params)
    assert [r.index for r in results] == [0, 1, 2]
    assert len({tuple(r.token_ids) for r in results}) == 3
    assert [len(r.token_ids) for r in results] == [20] * 3
    assert [r.metrics.cached_tokens for r in results][1:] == [8, 8]  # one page; the next is not full yet


def test_B30_every_piece_of_a_stream_has_its_log_probabilities(llm: LLM) -> None:
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=30, logprobs=2, ignore_eos=True)
    for delta in llm.stream([1, 2, 3], params):
        assert [entry.token_id for entry in delta.logprobs or []] == delta.token_ids
        assert all(len(entry.top) == 2 for entry in delta.logprobs or [])


def test_B29_log_probabilities_are_those_of_the_target(mode: str) -> None:
    params = [SamplingParams(temperature=t, seed=1, max_tokens=30, logprobs=3, ignore_eos=True) for t in (0.0, 1.0)]
    with LLM(**engine_arguments("ar")) as target, LLM(**engine_arguments(mode)) as llm:
        for one in params:
            [wanted], [found] = target.generate([1, 2, 3], one), llm.generate([1, 2, 3], one)
            assert found.logprobs == wanted.logprobs
            assert all(entry.logprob < 0 for entry in found.logprobs or [])


def test_B64_the_parts_of_a_round_add_up(mode: str) -> None:
    """Verification and waiting are all of a round but a small rest, which is what the host adds."""
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=200, ignore_eos=True)
    with LLM(**engine_arguments(mode, max_model_len=256)) as llm:
        m = llm.generate([1, 2, 3], params)[0].metrics
    assert len(m.round_seconds) == m.rounds
    assert sum(m.round_seconds) == pytest.approx(m.decode_seconds)
    parts = m.verify_seconds + m.target_wait_seconds
    assert 0 < m.draw_seconds < m.verify_seconds
    assert parts <= m.decode_seconds * 1.05


def test_B88_B89_definitions_hold_to_the_digit(llm: LLM, mode: str) -> None:
    params = [SamplingParams(temperature=1.0, seed=s, max_tokens=5 + 7 * s, ignore_eos=True) for s in range(5)]
    for result in llm.generate([[1, 2, 3]] * 5, params):
        m = result.metrics
        check_counters(result, mode)
        assert m.acceptance_length == (1 + m.accepted / m.rounds if m.rounds else None)
        assert m.hit_rate == (m.hits / m.rounds if mode.startswith("ssd") and m.rounds else None)
        if mode == "ssd-hit" and m.rounds > 1:
            assert m.hits >= m.rounds - 1
        if mode == "ssd-miss":
            assert m.hits == 0
