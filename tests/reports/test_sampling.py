"""Reports about sampling: what is asked for reaches the proposal, the verification and the bonus token alike.

The exact comparison with a sampler written apart is tests/lossless/test_options.py; here each report is tried as its
reader would try it.
"""

from __future__ import annotations

import collections
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.lossless.test_law import p_value, target_law, transitions
from tests.reports.conftest import engine_arguments

from saguaro import LLM, SamplingParams
from saguaro.algorithm.terms import DenseLaw, Proposal
from saguaro.algorithm.verify import verify_rejection

PROMPT = [1, 2, 3]
SPECULATING = ("sd", "ssd-hit", "ssd-miss", "ssd-mixed")
TABLES = ("toy:markov?seed=1&vocab=16&scale=1.5", "toy:markov?seed=2&vocab=16&scale=1.5")


@pytest.fixture(scope="module")
def target() -> Any:
    """The target alone."""
    with LLM(**engine_arguments("ar")) as llm:
        yield llm


def ids(llm: LLM, params: SamplingParams, prompt: list[int] = PROMPT) -> list[int]:
    return llm.generate(prompt, params)[0].token_ids


def tables(mode: str, **more: Any) -> LLM:
    """The same mode with a pair whose law is known exactly."""
    options = {**engine_arguments(mode), "target": TABLES[0], "max_batch": 64, "max_model_len": 128, **more}
    if mode != "ar":
        options |= {"draft": TABLES[0 if mode == "ssd-hit" else 1], "lookahead": 3, "budget": 8}
    if "fan_out" in options:
        options.pop("budget", None)
    options["page_size"] = 16
    return LLM(**options)


def test_B01_greedy_text_is_that_of_the_target(llm: LLM, target: LLM) -> None:
    greedy = SamplingParams(temperature=0.0, max_tokens=80, ignore_eos=True)
    for seed in range(6):
        prompt = [(seed * 7 + i * i) % 48 for i in range(3 + seed)]
        assert ids(llm, greedy, prompt) == ids(target, greedy, prompt)


@pytest.mark.parametrize("lookahead", [1, 4])
@pytest.mark.parametrize("mode", SPECULATING)
def test_B02_a_hostile_draft_is_never_believed(mode: str, lookahead: int, target: LLM) -> None:
    """A draft that always proposes what the target would least say: same text, and not one token accepted."""
    options = engine_arguments(mode)
    options["drafter_options"] = {"script": "m", "shortlist": None}
    greedy = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    with LLM(**{**options, "lookahead": lookahead, "fallback": "neural"}) as llm:
        [result] = llm.generate(PROMPT, greedy)
    assert result.token_ids == ids(target, greedy)
    assert result.metrics.accepted == 0
    assert result.metrics.drafted > 0 or mode == "ssd-miss"


@pytest.mark.parametrize("draft_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", SPECULATING)
def test_B04_B05_B07_rejection_keeps_the_law(mode: str, draft_dtype: str) -> None:
    """What the draft draws from is what it sends: a draft of less precision, all filters on, and the target's law."""
    options = {"draft_dtype": draft_dtype, "verification": "rejection", "pacing": "lockstep"}
    with tables(mode, **options) as llm:
        assert p_value(transitions(llm, 3_000, 0.8), target_law(llm, 0.8)) > 0.001


def test_B05_rejection_accepts_as_often_as_it_can() -> None:
    """The share of accepted tokens is the sum of min(p, q), not the chance that two draws are equal."""
    p = torch.tensor([0.5, 0.3, 0.15, 0.05])
    q = torch.tensor([0.3, 0.4, 0.2, 0.1])
    accepted, draws = 0.0, 2_000
    for token in range(4):
        for step in range(draws // 4):
            uniform = torch.tensor([(step + 0.5) / (draws // 4)], dtype=torch.float64)
            outcome = verify_rejection(
                torch.stack([p, p]), Proposal((token,), DenseLaw(q[None])),
                accept_uniforms=uniform, residual_uniforms=torch.tensor([0.5, 0.5], dtype=torch.float64),
            )  # fmt: skip
            accepted += outcome.accepted * float(q[token]) / (draws // 4)
    assert accepted == pytest.approx(float(torch.minimum(p, q).sum()), abs=0.01)


def test_R08_a_token_of_no_probability_is_never_accepted() -> None:
    p, q = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    zero = torch.zeros(1, dtype=torch.float64)
    outcome = verify_rejection(
        p, Proposal((1,), DenseLaw(q)), accept_uniforms=zero, residual_uniforms=torch.zeros(2, dtype=torch.float64)
    )
    assert (outcome.accepted, outcome.bonus) == (0, 0)


def test_B07_all_filters_at_once(llm: LLM, target: LLM) -> None:
    params = SamplingParams(
        temperature=0.8, top_k=4, top_p=0.7, repetition_penalty=1.3, seed=11, max_tokens=60, ignore_eos=True
    )
    assert ids(llm, params) == ids(target, params)


def test_B08_temperature_does_something(mode: str) -> None:
    """First tokens of many seeds follow the law after the prompt, and later ones after their own prefix."""
    with tables(mode) as llm:
        first = collections.Counter(
            result.token_ids[0]
            for result in llm.generate(
                [[1]] * 300, [SamplingParams(temperature=1.5, max_tokens=1, seed=s) for s in range(300)]
            )
        )
        assert len(first) > 4
        assert p_value(transitions(llm, 2_000, 1.5), target_law(llm, 1.5)) > 0.001


def test_B09_filters_hold_at_every_position(llm: LLM, target: LLM) -> None:
    """top_k = 1 is greedy at any temperature; a nucleus holds what the target's own log probabilities say it does."""
    greedy = SamplingParams(temperature=0.0, max_tokens=50, ignore_eos=True)
    hot = SamplingParams(temperature=1.3, top_k=1, seed=1, max_tokens=50, ignore_eos=True)
    assert ids(llm, hot) == ids(target, greedy)
    nucleus = SamplingParams(temperature=1.0, top_p=0.6, seed=2, max_tokens=80, ignore_eos=True, logprobs=20)
    [result] = llm.generate(PROMPT, nucleus)
    for entry in result.logprobs or []:
        above = sum(torch.tensor([value]).exp().item() for token, value in entry.top if value > entry.logprob)
        assert above < 0.6 + 1e-5


def test_B10_bias_and_min_p_at_every_position(llm: LLM, target: LLM) -> None:
    base = SamplingParams(temperature=1.0, seed=5, max_tokens=60, ignore_eos=True)
    often = collections.Counter(ids(target, base)).most_common(1)[0][0]
    assert often not in ids(llm, replace(base, logit_bias={often: -100}))
    assert set(ids(llm, replace(base, logit_bias={often: 100}))) == {often}
    [result] = llm.generate(PROMPT, replace(base, min_p=0.3, logprobs=1))
    for entry in result.logprobs or []:
        assert entry.logprob >= entry.top[0][1] + torch.tensor(0.3).log().item() - 1e-5


def test_B12_penalties_count_tokens_not_rounds(llm: LLM, target: LLM) -> None:
    params = SamplingParams(temperature=0.0, frequency_penalty=0.4, max_tokens=100, ignore_eos=True)
    assert ids(llm, params) == ids(target, params)
    every = tuple(range(48))
    held = SamplingParams(temperature=0.0, min_tokens=9, max_tokens=20, stop_token_ids=every)
    [result] = llm.generate(PROMPT, replace(held, stop_token_ids=tuple(range(1, 48, 2)), logit_bias={1: 90}))
    assert result.token_ids[9] == 1
    assert len(result.token_ids) == 10


def test_B13_a_banned_pair_wherever_it_falls_in_a_run(llm: LLM, target: LLM) -> None:
    base = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    plain = ids(target, base)
    codec = target.tokenizer
    for place in range(3, 9):
        pair = plain[place : place + 2]
        word = codec.decode(pair)
        if codec.encode(word, add_special=False) != pair:
            continue
        params = replace(base, bad_words=(word,))
        found = ids(llm, params)
        assert found == ids(target, params)
        assert pair not in [found[i : i + 2] for i in range(len(found) - 1)]
        assert found[:place] == plain[:place]


def test_B15_seeds_in_a_mixed_batch(llm: LLM) -> None:
    seeded = SamplingParams(temperature=0.8, seed=7, max_tokens=20, ignore_eos=True)
    free = replace(seeded, seed=None)
    first, second, third, fourth = llm.generate([PROMPT] * 4, [seeded, free, seeded, free])
    assert first.token_ids == third.token_ids == ids(llm, seeded)
    assert len({first.seed, second.seed, fourth.seed}) == 3
    assert ids(llm, replace(seeded, seed=second.seed)) == second.token_ids


def test_B17_verification_gives_the_logits_of_single_steps() -> None:
    """Bit for bit, in every dtype: nothing near a tie can flip."""
    from saguaro.engine.build import load
    from saguaro.execution.batch import Span
    from saguaro.execution.kv_pool import KVPool
    from saguaro.execution.runner import Runner

    for dtype in ("float32", "bfloat16", "int8"):
        with LLM(**{**engine_arguments("ar"), "dtype": dtype}) as llm:
            plan: Any = llm._engine.plan  # type: ignore[union-attr]
            model = load(plan.target, plan)
            with torch.inference_mode():
                together, single = (Runner(model, KVPool(model.config, 16, model.pool_dtype), 16) for _ in range(2))
                tokens = [4, 8, 15, 16, 23, 42]
                rows = together.run([Span(tokens, 0, [0], list(range(6)), 6)])
                assert rows is not None
                for position, token in enumerate(tokens):
                    row = single.run([Span([token], position, [0], [position], 1)])
                    assert row is not None
                    assert torch.equal(row[0], rows[position])


def test_B19_B60_every_row_keeps_to_its_own_alphabet(llm: LLM) -> None:
    """Five rows, each allowed tokens of its own: no token of another row appears, at temperature and above batch 2."""
    alphabets = [set(range(9 * row, 9 * row + 9)) for row in range(5)]
    params = [
        SamplingParams(
            temperature=0.8, seed=row, max_tokens=60, ignore_eos=True,
            logit_bias={token: -100 for token in range(48) if token not in alphabet},
        )
        for row, alphabet in enumerate(alphabets)
    ]  # fmt: skip
    prompts = [[min(alphabet)] for alphabet in alphabets]
    for result, alphabet in zip(llm.generate(prompts, params), alphabets, strict=True):
        assert set(result.token_ids) <= alphabet
