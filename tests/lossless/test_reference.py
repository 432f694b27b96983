"""AR of the engine, run without any draft, equals Algorithm 1's reference, which has a sampler of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.lossless.conftest import PROMPTS, opened, params

from saguaro.algorithm.fan_out import open_fan_out
from saguaro.algorithm.reference import Options, decode
from saguaro.engine.build import load
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner


class Oracle:
    """Logits after a prefix, each computed from nothing but the prefix."""

    def __init__(self, llm: Any, place: str) -> None:
        plan = llm._engine.plan
        model = load(getattr(plan, place), plan)
        self._runner = Runner(model, KVPool(model.config, 128, model.pool_dtype), 128)

    def __call__(self, prefix: Sequence[int]) -> np.ndarray:
        with torch.inference_mode():
            logits = self._runner.run([Span(list(prefix), 0, [0], list(range(len(prefix))), 1)])
        assert logits is not None
        return logits[0].numpy()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_ar_equals_the_reference(dtype: str, temperature: float) -> None:
    with opened("ar", dtype, "loopback") as llm:
        oracle = Oracle(llm, "target")
        for prompt in PROMPTS[:3]:
            wanted = decode(oracle, None, prompt, options=Options(temperature=temperature, seed=5, max_tokens=14))
            assert llm.generate(prompt, params(temperature))[0].token_ids == wanted.token_ids


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("fallback", ["none", "random", "neural"])
def test_ssd_in_lockstep_walks_through_the_same_rounds(temperature: float, fallback: str) -> None:
    """Not the tokens alone: the same proposals hit, miss and are accepted as in the reference."""
    counts = (2, 1, 1, 2)
    with opened("ssd", "float32", "loopback", fan_out=list(counts), pacing="lockstep", fallback=fallback) as llm:
        target, draft = Oracle(llm, "target"), Oracle(llm, "draft")
        options = Options(
            lookahead=3, budget=6, fan_out=open_fan_out(counts), fallback=fallback,
            temperature=temperature, seed=5, max_tokens=30,
        )  # fmt: skip
        wanted = decode(target, draft, PROMPTS[1], options=options)
        result = llm.generate(PROMPTS[1], params(temperature, max_tokens=30))[0]
    assert result.token_ids == wanted.token_ids
    last_rounds_may_differ = 2  # the engine proposes no more tokens than may still be generated
    assert abs(result.metrics.hits - wanted.hits) <= last_rounds_may_differ
    assert abs(result.metrics.rounds - len(wanted.rounds)) <= last_rounds_may_differ
