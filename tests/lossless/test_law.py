"""Under `rejection` the engine's tokens follow the target's law: chi-square over all transitions of a table model, V
= 16.

All hits (every outcome has a branch), all misses (no branches) and a mixture; the fast run takes fewer draws than the
slow one. `shared_noise` is held to the same law: there it is a property of the noise.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from saguaro import LLM, SamplingParams

VOCAB = 16
TARGET, DRAFT = f"toy:markov?seed=1&vocab={VOCAB}&scale=1.5", f"toy:markov?seed=2&vocab={VOCAB}&scale=1.5"
FAN_OUTS = {"hit": [15, 16], "miss": [0, 0, 0], "mixed": [2, 1, 3]}
LENGTH = 60


def transitions(llm: LLM, draws: int, temperature: float) -> np.ndarray:
    """Counts of (token, next token) over independent requests of LENGTH tokens."""
    counts = np.zeros((VOCAB, VOCAB), dtype=np.int64)
    seed = 0
    while counts.sum() < draws:
        each = [
            SamplingParams(temperature=temperature, max_tokens=LENGTH, seed=seed + i, ignore_eos=True)
            for i in range(64)
        ]
        seed += 64
        for result in llm.generate([[1]] * 64, each):
            ids = np.array([1, *result.token_ids])
            np.add.at(counts, (ids[:-1], ids[1:]), 1)
    return counts


def target_law(llm: LLM, temperature: float) -> np.ndarray:
    """The exact law after each token, from the table itself."""
    from saguaro.engine.build import load
    from saguaro.execution.batch import Span
    from saguaro.execution.kv_pool import KVPool
    from saguaro.execution.runner import Runner

    plan = llm._engine.plan
    model = load(plan.target, plan)
    runner = Runner(model, KVPool(model.config, 16, model.pool_dtype), 16)
    rows = [runner.run([Span([t], 0, [0], [0], 1)])[0] for t in range(VOCAB)]
    return torch.softmax(torch.stack(rows).double() / temperature, dim=-1).numpy()


def p_value(counts: np.ndarray, law: np.ndarray) -> float:
    """Of a chi-square over all cells that expect at least 5 counts (others are pooled a row)."""
    statistic, degrees = 0.0, 0
    for row, p in zip(counts, law, strict=True):
        total = row.sum()
        common = p * total >= 5
        observed = [*row[common], row[~common].sum()]
        wanted = [*(p[common] * total), p[~common].sum() * total]
        cells = [(o, w) for o, w in zip(observed, wanted, strict=True) if w > 0]
        statistic += sum((o - w) ** 2 / w for o, w in cells)
        degrees += len(cells) - 1
    # Wilson-Hilferty: close to the exact tail for the hundreds of degrees of freedom here
    z = ((statistic / degrees) ** (1 / 3) - (1 - 2 / (9 * degrees))) / math.sqrt(2 / (9 * degrees))
    return 0.5 * math.erfc(z / math.sqrt(2))


@pytest.mark.parametrize("draws", [3_840, pytest.param(200_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", FAN_OUTS)
@pytest.mark.parametrize("saguaro_c", [None, 0.4])
def test_rejection_follows_the_law(kind: str, saguaro_c: float | None, draws: int) -> None:
    temperature = 0.8
    with LLM(
        TARGET, DRAFT, mode="ssd", channel="loopback", dtype="float32", verification="rejection", pacing="lockstep",
        fan_out=FAN_OUTS[kind], saguaro_c=saguaro_c, max_batch=64, max_model_len=128, page_size=16,
    ) as llm:  # fmt: skip
        counts = transitions(llm, draws, temperature)
        one = llm.generate([1], SamplingParams(temperature=temperature, max_tokens=LENGTH, seed=1, ignore_eos=True))[0]
        if kind == "hit":
            assert one.metrics.misses <= 1  # the last round may have no room for a proposal
        elif kind == "miss":
            assert one.metrics.hits == 0
        else:
            assert one.metrics.hits > 0
            assert one.metrics.misses > 0
        assert p_value(counts, target_law(llm, temperature)) > 0.001


def test_shared_noise_follows_the_law() -> None:
    with LLM(
        TARGET, DRAFT, mode="ssd", channel="loopback", dtype="float32", lookahead=2, budget=5, max_batch=64,
        max_model_len=128, page_size=16,
    ) as llm:  # fmt: skip
        assert p_value(transitions(llm, 8_000, 1.0), target_law(llm, 1.0)) > 0.001


def test_the_test_can_fail() -> None:
    """The same chi-square refuses counts drawn from a law that is 3 % off."""
    law = np.full((VOCAB, VOCAB), 1 / VOCAB)
    wrong = law * (1 + 0.03 * np.where(np.arange(VOCAB) % 2, 1, -1))
    counts = np.random.default_rng(0).multinomial(200_000 // VOCAB, wrong[0], size=VOCAB)
    assert p_value(counts, law) < 0.001
