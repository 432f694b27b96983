"""Reports about keys and values: prefix cache, preemption, the ends of pages, pools and contexts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.reports.conftest import engine_arguments

from saguaro import LLM, SamplingParams
from saguaro.errors import ConfigError, RequestRefused
from saguaro.models.config import ModelConfig

GREEDY = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
WARM = SamplingParams(temperature=1.0, seed=3, max_tokens=12, ignore_eos=True)


@contextlib.contextmanager
def opened(mode: str, **options: Any) -> Iterator[LLM]:
    with LLM(**engine_arguments(mode, **options)) as llm:
        yield llm


def alone(prompts: list[list[int]], params: SamplingParams, **options: Any) -> list[list[int]]:
    """AR, one at a time, without the prefix cache and with all the room there is."""
    with opened("ar", prefix_cache=False, **options) as llm:
        return [llm.generate(prompt, params)[0].token_ids for prompt in prompts]


def test_B26_R03_near_the_context_limit(mode: str) -> None:
    """A row ends with `length` at exactly the limit; the engine answers the next request; nobody is preempted."""
    with opened(mode, max_model_len=64) as llm:
        for length in range(50, 64):
            [result] = llm.generate([[*range(40), *range(length - 40)]], SamplingParams(max_tokens=50, seed=1))
            assert result.finish_reason in ("length", "stop")
            if result.finish_reason == "length":
                assert length + len(result.token_ids) == 64
        with pytest.raises(RequestRefused, match="at most 63"):
            llm.generate([[1] * 64], GREEDY)
        long, short = llm.generate([[5] * 60, [1, 2]], SamplingParams(temperature=0.0, max_tokens=30, ignore_eos=True))
        assert (len(long.token_ids), long.finish_reason) == (4, "length")
        assert len(short.token_ids) == 30
        assert llm.statistics()["preemptions"] == 0


def test_B32_prompt_logprobs_with_the_prefix_cache(mode: str) -> None:
    """Twice the same request: the second says the same, in full length, although its prompt is known by then."""
    params = SamplingParams(temperature=0.0, max_tokens=6, prompt_logprobs=2, logprobs=2, ignore_eos=True)
    prompt = [*range(20), 1, 2]
    with opened(mode, prefill_chunk=5) as llm:
        first, second = (llm.generate(prompt, params)[0] for _ in range(2))
    assert first.prompt_logprobs == second.prompt_logprobs
    assert first.prompt_logprobs is not None
    assert first.prompt_logprobs[0] is None
    assert [entry.token_id for entry in first.prompt_logprobs[1:] if entry] == prompt[1:]
    for entry in first.prompt_logprobs[1:]:
        assert entry is not None
        assert entry.logprob < 0
        assert len(entry.top) == 2
        assert entry.top[0][1] >= entry.logprob


def test_B45_a_prefix_hit_serves_the_draft_too(mode: str) -> None:
    """Acceptance of the second call equals that of the first; also when only the draft has forgotten the prompt."""
    prompt = [(7 * i + i // 5) % 48 for i in range(80)]
    with opened(mode, max_model_len=128, pacing="lockstep") as llm:
        engine: Any = llm._engine
        results = [llm.generate(prompt, GREEDY)[0]]
        results.append(llm.generate(prompt, GREEDY)[0])
        if mode != "ar":
            with torch.inference_mode():
                engine.draft.step()
            engine.draft.cache.clear()
        results.append(llm.generate(prompt, GREEDY)[0])
    assert [r.metrics.cached_tokens for r in results] == [0, 79, 79]
    assert len({tuple(r.token_ids) for r in results}) == 1
    assert len({(r.metrics.accepted, r.metrics.rounds) for r in results}) == 1


def test_B48_scattered_pages(mode: str) -> None:
    """Requests that share a beginning, over pages that do not lie in a row."""
    stem = [(5 * i) % 48 for i in range(21)]
    prompts = [[*stem, i, i + 1] for i in range(10)]
    wanted = alone(prompts, WARM)
    with opened(mode, max_batch=3, kv_pages=20, page_size=4) as llm:
        engine: Any = llm._engine
        pool = (engine.target if hasattr(engine, "target") else engine).scheduler.pool
        pages = pool.take(20)
        pool.give_back(pages[::2])
        llm.generate([9, 9], WARM)
        pool.give_back(pages[1::2])
        results = llm.generate(prompts, WARM)
    assert [r.token_ids for r in results] == wanted
    assert sum(r.metrics.cached_tokens for r in results) > 0


@pytest.mark.parametrize("cached", [True, False])
def test_B50_R02_B49_preempted_at_every_length(mode: str, cached: bool) -> None:
    """Whatever a row had generated when its pages were taken, it ends with the same tokens and counts."""
    prompt, other = [3, 1, 4, 1, 5], [2, 7, 1]
    params = SamplingParams(temperature=1.0, seed=4, max_tokens=24, ignore_eos=True)
    [wanted] = alone([prompt], params)
    seen = set()
    with opened(mode, max_batch=2, page_size=4, prefix_cache=cached) as llm:
        engine: Any = llm._engine
        scheduler = engine.target.scheduler
        for length in range(1, 24):
            found: list[int] = []
            metrics: Any = None
            for delta in llm.stream(prompt, params):
                found += delta.token_ids
                metrics = delta.metrics
                row = scheduler.find(llm_number(llm))
                if row is not None and len(found) >= length and row.preemptions < 2:  # twice in a row
                    seen.add(len(found))
                    scheduler._preempt(row)
                    engine.target.proposer.release(row)
            assert found == wanted
            assert len(found) == 1 + metrics.rounds + metrics.accepted
            assert metrics.prefill_tokens + metrics.cached_tokens == len(prompt)
        assert llm.generate(other, params)[0].token_ids == alone([other], params)[0]
    assert len(seen) > 3


def llm_number(llm: LLM) -> int:
    """The number of the one request that runs."""
    engine: Any = llm._engine
    running = engine.target.scheduler.running
    return running[0].request if running else -1


def test_B51_a_known_prompt_of_whole_pages(mode: str) -> None:
    """Nothing is left to compute but the last token, whose logits are needed; also while the first still runs."""
    with opened(mode, page_size=16, max_model_len=128) as llm:
        for length in (16, 32, 48):
            prompt = [(11 * i) % 48 for i in range(length)]
            [wanted] = alone([prompt], WARM, page_size=16, max_model_len=128)
            results = [llm.generate(prompt, WARM)[0], llm.generate(prompt, WARM)[0], *llm.generate([prompt] * 3, WARM)]
            assert [r.token_ids for r in results] == [wanted] * 5
            assert results[1].metrics.cached_tokens == length - 1
            assert results[-1].metrics.cached_tokens == length - 1


def test_B54_too_few_pages_fail_nobody(mode: str) -> None:
    """Eight pages, six requests of 40 tokens: all end, as they do alone; rows were preempted for it."""
    prompts = [[i, i + 1, i + 2, i + 3] for i in range(6)]
    params = SamplingParams(temperature=1.0, seed=2, max_tokens=36, ignore_eos=True)
    with opened(mode, kv_pages=8, page_size=8, max_batch=5) as llm:
        results = llm.generate(prompts, params)
        assert llm.statistics()["preemptions"] > 0
        assert sum(r.metrics.preemptions for r in results) == llm.statistics()["preemptions"]
    assert [r.token_ids for r in results] == alone(prompts, params)
    assert {r.finish_reason for r in results} == {"length"}


def test_B58_what_cannot_be_taken_back_is_refused() -> None:
    """A sliding window would need keys that a rejected proposal has pushed out: refused before anything is loaded."""
    config = {
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 48, "use_sliding_window": True,
        "sliding_window": 16, "max_window_layers": 1, "eos_token_id": 1,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="sliding"):
        ModelConfig.from_json(config)


def test_R01_a_round_over_the_end_of_a_page(mode: str) -> None:
    """The page that a round has filled is found under its own tokens by the next turn of a conversation."""
    with opened(mode, page_size=16, max_model_len=128, max_batch=5) as llm:
        prompt = [(3 * i) % 48 for i in range(14)]
        [first] = llm.generate(prompt, GREEDY)
        turn = [*[*prompt, *first.token_ids][:16], 40, 41, 42]
        [second] = llm.generate(turn, GREEDY)
        assert second.metrics.cached_tokens == 16
        assert [second.token_ids] == alone([turn], GREEDY, page_size=16, max_model_len=128)


def test_a_conversation_reuses_what_is_still_equal(mode: str) -> None:
    """A template that rewrites an earlier turn (its reasoning is left out): exactly the equal tokens are reused."""
    with opened(mode, max_model_len=128) as llm:
        turn = [(5 * i) % 48 for i in range(30)]
        [first] = llm.generate(turn, GREEDY)
        rewritten = [*turn, *first.token_ids[:5], 47, 46, *first.token_ids[5:], 1, 2]
        [second] = llm.generate(rewritten, GREEDY)
        assert second.metrics.cached_tokens == 35 + (first.token_ids[5] == 47)
        assert [second.token_ids] == alone([rewritten], GREEDY, max_model_len=128)


def test_B65_aborted_requests_leave_nothing(mode: str) -> None:
    with opened(mode) as llm:
        engine: Any = llm._engine
        for _ in range(3):
            for count, _ in enumerate(llm.stream([1, 2, 3], SamplingParams(max_tokens=60, ignore_eos=True))):
                if count == 2:
                    break
        statistics = llm.statistics()
        assert statistics["running"] == statistics["pages_used"] == 0
        if mode.startswith("s"):
            with torch.inference_mode():
                engine.draft.step()
            assert llm.statistics()["draft"]["rows"] == llm.statistics()["draft"]["pages_used"] == 0


def test_refused_requests_take_no_page_and_disturb_nobody(mode: str) -> None:
    """Over-long, impossible, contradictory: one sentence each, while another request runs and ends as it does alone."""
    params = SamplingParams(temperature=1.0, seed=4, max_tokens=40, ignore_eos=True)
    [wanted] = alone([[1, 2, 3]], params)
    refused: list[tuple[list[int], dict[str, Any], str]] = [
        ([1] * 200, {}, "max_model_len"),
        ([], {}, "empty"),
        ([1, 99_999], {}, "token id outside"),
        ([1] * 60, {"max_tokens": 60}, "kv_memory"),
        ([1], {"json_schema": "{"}, "json_schema"),
        ([1], {"regex": "("}, "grammar"),
        ([1], {"min_tokens": 9, "max_tokens": 3}, "min_tokens"),
        ([1], {"regex": "a", "json_object": True}, "one grammar at a time"),
    ]
    with opened(mode, kv_pages=10, page_size=8) as llm:
        engine: Any = llm._engine
        found: list[int] = []
        running = llm.stream([1, 2, 3], params)
        for prompt, options, words in refused:
            found += next(running).token_ids
            used = engine.target.scheduler.pool.used
            with pytest.raises(RequestRefused, match=words):
                llm.generate([prompt], SamplingParams(**{"max_tokens": 10, **options}))
            assert engine.target.scheduler.pool.used <= used + 1  # the running row may have grown
        found += [token for delta in running for token in delta.token_ids]
        assert found == wanted
