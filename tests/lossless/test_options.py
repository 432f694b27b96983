"""Every sampling option reaches every path: AR equals a sampler written here, and SD and SSD equal AR.

The sampler below is numpy over the model's logits of the whole prefix, with the published noise; it shares no line with
`algorithm/edits.py` or `algorithm/sampling.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.lossless.conftest import PROMPTS, opened

from saguaro import LLM, SamplingParams
from saguaro.algorithm.noise import gumbel_rows, row_key
from saguaro.engine.build import load
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner

MODES = {
    "sd": {"mode": "sd", "drafter": "mixed"},
    "hit": {"mode": "ssd", "drafter": "hit", "pacing": "lockstep"},
    "miss": {"mode": "ssd", "drafter": "mixed", "fan_out": "none"},
    "mixed": {"mode": "ssd", "drafter": "mixed", "pacing": "lockstep"},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "b07 together": {"temperature": 0.8, "top_k": 8, "top_p": 0.7, "repetition_penalty": 1.3},
    "b10 min_p": {"temperature": 1.2, "min_p": 0.2},
    "b10 bias": {"temperature": 1.0, "logit_bias": {3: -100, 7: 2.5}},
    "b12 penalties at 0": {"temperature": 0.0, "frequency_penalty": 0.4, "presence_penalty": 0.2},
    "b12 penalties": {"temperature": 1.0, "frequency_penalty": 1.4, "presence_penalty": -0.3},
    "repetition below 1": {"temperature": 1.0, "repetition_penalty": 0.8},
    "b13 bad words": {"temperature": 0.7, "bad_words": ["a", "xy", "0"]},
    "b12 min_tokens": {"temperature": 0.0, "min_tokens": 9, "stop_token_ids": list(range(0, 48, 2))},
}
LENGTH = 24


def params(name: str, **more: Any) -> SamplingParams:
    return SamplingParams(**{"max_tokens": LENGTH, "seed": 5, "ignore_eos": True, **OPTIONS[name], **more})


class Oracle:
    """The target's logits after any prefix, and the tokens that the options ask for."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        plan = llm._engine.plan  # type: ignore[union-attr]
        model = load(plan.target, plan)
        self.runner = Runner(model, KVPool(model.config, 128, model.pool_dtype), 8)

    def logits(self, tokens: list[int]) -> np.ndarray:
        with torch.inference_mode():
            row = self.runner.run([Span(tokens, 0, list(range(16)), list(range(len(tokens))), 1)])
        assert row is not None
        return row[0].numpy().astype(np.float32)

    def generate(self, prompt: list[int], p: SamplingParams) -> list[int]:
        output: list[int] = []
        words = self.llm._intake.bad_words(p.bad_words)
        while len(output) < p.max_tokens:
            output.append(self.token(prompt, output, p, words))
            if output[-1] in p.stop_token_ids:
                break
        return output

    def token(self, prompt: list[int], output: list[int], p: SamplingParams, words: tuple[tuple[int, ...], ...]) -> int:
        row = self.logits(prompt + output)
        for token, bias in p.logit_bias:
            row[token] += np.float32(bias)
        for token in set(prompt + output):
            factor = np.float32(p.repetition_penalty)
            row[token] = row[token] / factor if row[token] > 0 else row[token] * factor
        for token in set(output):
            row[token] -= np.float32(p.presence_penalty + p.frequency_penalty * output.count(token))
        if len(output) < p.min_tokens:
            row[list(p.stop_token_ids)] = -np.inf
        for word in words:
            known = len(output) >= len(word) - 1 and word[-1] < len(row)
            if known and tuple(output[len(output) - len(word) + 1 :]) == word[:-1]:
                row[word[-1]] = -np.inf
        if p.temperature == 0:
            return int(row.argmax())
        scores = (row - row.max()) / np.float32(p.temperature)
        if p.min_p:
            scores[scores < np.log(p.min_p)] = -np.inf
        order = np.argsort(-scores, kind="stable")
        if p.top_k:
            scores[order[p.top_k :]] = -np.inf
        mass = np.exp(scores[order].astype(np.float64))
        before = (np.cumsum(mass) - mass) / mass.sum()
        scores[order[before >= p.top_p]] = -np.inf
        noise = gumbel_rows([row_key(5, 0, len(prompt) + len(output))], len(row))[0].numpy()
        return int((scores + noise).argmax())


@pytest.fixture(scope="module")
def ar():
    with opened("ar", "float32", "loopback") as llm:
        yield llm


@pytest.fixture(scope="module")
def oracle(ar: LLM) -> Oracle:
    return Oracle(ar)


@pytest.fixture(scope="module", params=MODES)
def speculating(request: pytest.FixtureRequest):
    options: dict[str, Any] = dict(MODES[request.param])
    with opened(options.pop("mode"), "float32", "loopback", lookahead=4, budget=8, **options) as llm:
        yield llm


@pytest.mark.parametrize("name", OPTIONS)
def test_ar_is_what_the_options_say(ar: LLM, oracle: Oracle, name: str) -> None:
    for prompt, completion in zip(PROMPTS, ar.generate(PROMPTS, params(name)), strict=True):
        assert completion.token_ids == oracle.generate(prompt, params(name))


@pytest.mark.parametrize("name", OPTIONS)
def test_speculation_gives_the_tokens_of_ar(ar: LLM, speculating: LLM, name: str) -> None:
    wanted = [c.token_ids for c in ar.generate(PROMPTS, params(name))]
    assert [c.token_ids for c in speculating.generate(PROMPTS, params(name))] == wanted


def test_options_of_one_row_leave_the_others_alone(ar: LLM, speculating: LLM) -> None:  # B19
    """Each row of a batch may draw only its own tokens, and plain rows stand between."""
    own = [list(range(8 * i, 8 * i + 8)) for i in range(5)]
    each = [
        SamplingParams(
            temperature=0.8, max_tokens=LENGTH, seed=5, ignore_eos=True,
            logit_bias={} if i == 2 else {token: -100 for token in range(48) if token not in own[i]},
        )
        for i in range(5)
    ]  # fmt: skip
    results = speculating.generate(PROMPTS, each)
    for i, result in enumerate(results):
        assert i == 2 or set(result.token_ids) <= set(own[i])
    assert [r.token_ids for r in results] == [
        ar.generate(prompt, p)[0].token_ids for prompt, p in zip(PROMPTS, each, strict=True)
    ]


def test_b10_a_banned_token_never_appears_though_the_draft_proposes_it(speculating: LLM) -> None:
    greedy = SamplingParams(temperature=0.0, max_tokens=LENGTH, ignore_eos=True)
    [free] = speculating.generate(PROMPTS[0], greedy)
    common = max(set(free.token_ids), key=free.token_ids.count)
    [without] = speculating.generate(
        PROMPTS[0], SamplingParams(temperature=0.0, max_tokens=LENGTH, ignore_eos=True, logit_bias={common: -100})
    )
    assert common not in without.token_ids


def test_b12_min_tokens_counts_tokens(speculating: LLM) -> None:
    for completion in speculating.generate(PROMPTS, params("b12 min_tokens")):
        assert len(completion.token_ids) > 9
        assert not set(completion.token_ids[:9]) & set(range(0, 48, 2))


def test_logprobs_are_of_the_law_before_the_edits(ar: LLM) -> None:
    greedy = SamplingParams(temperature=0.0, max_tokens=1, logprobs=3)
    [plain] = ar.generate(PROMPTS[0], greedy)
    token = plain.token_ids[0]
    [biased] = ar.generate(PROMPTS[0], replace(greedy, logit_bias={token: -50}))
    assert biased.token_ids[0] != token
    assert biased.logprobs[0].top == plain.logprobs[0].top  # type: ignore[index]
