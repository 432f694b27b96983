"""`LLM`: several choices of a prompt, and log probabilities, in every mode."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import pytest
import torch
from tests.lossless.conftest import PROMPTS, opened, params

from saguaro import LLM, SamplingParams
from saguaro.engine.build import load
from saguaro.errors import ConfigError, RequestRefused
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.request import Completion

MODES = {
    "ar": {"mode": "ar"},
    "sd": {"mode": "sd", "drafter": "mixed"},
    "hit": {"mode": "ssd", "drafter": "hit", "pacing": "lockstep"},
    "miss": {"mode": "ssd", "drafter": "mixed", "fan_out": "none"},
    "mixed": {"mode": "ssd", "drafter": "mixed", "pacing": "lockstep"},
}


@pytest.fixture(params=MODES)
def llm(request: pytest.FixtureRequest):
    options = dict(MODES[request.param])
    with opened(
        options.pop("mode"), "float32", "loopback", lookahead=3 if "drafter" in options else 0, **options
    ) as it:
        yield it


def laws(llm: LLM, tokens: list[int]) -> torch.Tensor:
    """Log of the target's law after each prefix of `tokens`, from the model itself."""
    plan = llm._engine.plan  # type: ignore[union-attr]
    model = load(plan.target, plan)
    runner = Runner(model, KVPool(model.config, 128, model.pool_dtype), 8)
    with torch.inference_mode():
        rows = runner.run([Span(tokens, 0, list(range(16)), list(range(len(tokens))), len(tokens))])
    assert rows is not None
    return torch.log_softmax(rows.double(), dim=-1)


def check_logprobs(llm: LLM, completion: Completion, count: int) -> None:
    entries = completion.logprobs
    assert entries is not None
    assert [entry.token_id for entry in entries] == completion.token_ids
    start = len(completion.prompt_token_ids)
    rows = laws(llm, completion.prompt_token_ids + completion.token_ids)[start - 1 : -1]
    for entry, row in zip(entries, rows, strict=True):
        assert entry.logprob == pytest.approx(float(row[entry.token_id]), abs=1e-4)
        assert entry.logprob < 0
        assert len(entry.top) == count
        assert [value for _, value in entry.top] == sorted((value for _, value in entry.top), reverse=True)
        for token, value in entry.top:
            assert value == pytest.approx(float(row[token]), abs=1e-4)
        if count:
            assert entry.top[0][1] == pytest.approx(float(row.max()), abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("count", [0, 3])
def test_b29_logprobs_are_the_targets_own_in_every_mode(llm: LLM, count: int, temperature: float) -> None:
    for completion in llm.generate(PROMPTS[:3], replace(params(temperature), logprobs=count)):
        check_logprobs(llm, completion, count)


def test_b30_a_stream_has_one_entry_a_token(llm: LLM) -> None:
    wanted = replace(params(1.0), logprobs=2)
    [whole] = llm.generate(PROMPTS[0], wanted)
    deltas = list(llm.stream(PROMPTS[0], wanted))
    assert all(len(delta.logprobs or []) == len(delta.token_ids) for delta in deltas)
    pieces = [entry for delta in deltas for entry in delta.logprobs or []]
    assert [entry.token_id for entry in pieces] == whole.token_ids
    assert [e.logprob for e in pieces] == pytest.approx([e.logprob for e in whole.logprobs or []], abs=1e-5)


def test_b22_a_stop_inside_a_run_trims_logprobs_too(llm: LLM) -> None:
    [free] = llm.generate(PROMPTS[1], params(0.0))
    middle = free.text[len(free.text) // 2 : len(free.text) // 2 + 2]
    [cut] = llm.generate(PROMPTS[1], replace(params(0.0), stop=middle, logprobs=2))
    assert len(cut.logprobs or []) == len(cut.token_ids)
    assert middle not in cut.text


def test_without_asking_there_are_none(llm: LLM) -> None:
    assert llm.generate(PROMPTS[0], params(1.0))[0].logprobs is None


def test_choices_come_prompt_by_prompt_and_the_first_is_that_of_one(llm: LLM) -> None:
    several = llm.generate(PROMPTS[:2], replace(params(1.0), n=3))
    assert [(c.prompt_token_ids, c.index) for c in several] == [(p, i) for p in PROMPTS[:2] for i in range(3)]
    single = llm.generate(PROMPTS[:2], params(1.0))
    assert [c.token_ids for c in several[::3]] == [c.token_ids for c in single]
    assert len({tuple(c.token_ids) for c in several}) == 6


def test_choices_share_a_seed_that_the_system_chose(llm: LLM) -> None:
    first, second = llm.generate([1, 2], SamplingParams(n=2, max_tokens=12, ignore_eos=True))
    assert first.seed == second.seed
    assert first.token_ids != second.token_ids
    again = llm.generate([1, 2], SamplingParams(n=2, max_tokens=12, ignore_eos=True, seed=first.seed))
    assert [c.token_ids for c in again] == [first.token_ids, second.token_ids]


def test_calls_that_give_one_text_refuse_several(llm: LLM) -> None:
    with pytest.raises(RequestRefused, match="n is 2"):
        next(llm.stream([1], SamplingParams(n=2)))


def test_speculation_of_one_request_can_be_limited_or_off(llm: LLM) -> None:
    each = [replace(params(1.0), speculation=limit) for limit in (None, 0, 1)]
    plain = llm.generate(PROMPTS[:3], params(1.0))
    free, off, one = llm.generate(PROMPTS[:3], each)
    assert [c.token_ids for c in (free, off, one)] == [c.token_ids for c in plain]
    assert off.metrics.drafted == 0
    assert off.metrics.hit_rate is None
    assert off.metrics.rounds == len(off.token_ids) - 1
    assert one.metrics.drafted <= one.metrics.rounds


def test_streams_read_in_turn_do_not_lose_pieces(llm: LLM) -> None:
    each = [params(1.0, seed=i) for i in range(3)]
    wanted = [c.token_ids for c in llm.generate(PROMPTS[:3], each)]
    streams = [llm.stream(prompt, p) for prompt, p in zip(PROMPTS[:3], each, strict=True)]
    found: list[list[int]] = [[], [], []]
    for deltas in zip_longest(*streams):
        for tokens, delta in zip(found, deltas, strict=True):
            tokens += delta.token_ids if delta else []
    assert found == wanted


@pytest.mark.parametrize("changes", [{"lookahead": 17}, {"lookahead": -1}, {"budget": 65}, {"fan_out": [1] * 18}])
def test_sizes_out_of_range_are_refused_while_it_runs(changes: dict[str, object]) -> None:
    with opened("ssd", "float32", "loopback") as llm:
        with pytest.raises(ConfigError, match="must be a whole number in 0"):
            llm.configure(**changes)
        assert llm.generate([1, 2], params(0.0))[0].token_ids


def test_what_no_engine_can_go_on_with_is_refused_while_it_runs() -> None:
    """In the caller, in a sentence: a worker that took it would be lost."""
    with opened("ssd", "float32", "loopback") as llm:
        for changes, words in (
            ({"lookahead": None}, "lookahead must be"),
            ({"budget": None}, "budget must be"),
            ({"pacing": "lockstpe"}, "did you mean 'lockstep'"),
            ({"saguaro_c": 5}, "saguaro_c must be"),
            ({"saguaro_c": "auto"}, "saguaro_c must be"),
            ({"saguaro_c": 0.5}, "verification='rejection' only"),
            ({"adapt_depth": "no"}, "adapt_depth must be"),
            ({"fallback": "no.such:Module"}, "cannot be imported"),
            ({"fan_out": "no.such:Module"}, "cannot be imported"),
        ):
            with pytest.raises(ConfigError, match=words):
                llm.configure(**changes)
        llm.configure(fallback="auto")
        assert llm.generate([1, 2], params(0.0))[0].token_ids
