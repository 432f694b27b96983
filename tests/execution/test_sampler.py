"""The target's draw: the native path equals the pure one, rows do not touch each other, a NaN fails its own row
only.
"""

import math

import pytest
import torch

from saguaro.algorithm import noise, sampling
from saguaro.algorithm.options import Sampling
from saguaro.execution.sampler import Draw, draw_tokens, top_candidates


def draws(count: int, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> list[Draw]:
    sampling = Sampling(seed=11, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    return [Draw(sampling, position) for position in range(count)]


def best_of(scores_RV: torch.Tensor) -> list[tuple[list[int], list[float]]]:
    best = torch.topk(scores_RV, 4)
    return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0, 2.0])
@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p"),
    [(0, 1.0, 0.0), (5, 1.0, 0.0), (0, 0.6, 0.0), (8, 0.7, 0.0), (0, 1.0, 0.2), (8, 0.9, 0.1)],
)
def test_tokens_and_candidates_equal_the_pure_functions(
    temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    torch.manual_seed(0)
    logits_RV = 3 * torch.randn(40, 333)
    each = draws(40, temperature, top_k, top_p, min_p)
    keys = [d.key for d in each]
    wanted = sampling.draw_shared_noise(logits_RV, temperature, top_k, top_p, min_p, keys=keys)
    assert draw_tokens(logits_RV, each) == wanted
    scores_RV = sampling.processed_scores(logits_RV, temperature, top_k, top_p, min_p)
    if temperature > 0:
        scores_RV = scores_RV + noise.gumbel_rows(keys, 333)
    ranked, scores = top_candidates(logits_RV, each, 4)
    assert all(row == sorted(row, reverse=True) for row in scores)
    assert ranked == [[i for i, s in zip(*row, strict=True) if s > -math.inf] for row in best_of(scores_RV)]
    assert [r[0] for r in ranked] == wanted


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    torch.manual_seed(1)
    logits_RV, each = torch.randn(9, 1000), draws(9)
    together = draw_tokens(logits_RV, each)
    assert together == [draw_tokens(logits_RV[i : i + 1].contiguous(), each[i : i + 1])[0] for i in range(9)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_nan_fails_its_own_row_only(temperature: float) -> None:
    logits_RV, each = torch.randn(3, 50), draws(3, temperature)
    wanted = draw_tokens(logits_RV.clone(), each)
    logits_RV[1, 7] = math.nan
    assert draw_tokens(logits_RV, each) == [wanted[0], -1, wanted[2]]


def test_top_p_keeps_only_its_nucleus() -> None:  # B09
    torch.manual_seed(2)
    logits_1V = 2 * torch.randn(1, 64)
    law_1V = sampling.law(logits_1V, 1.0, 0, 0.6)
    allowed = {i for i in range(64) if law_1V[0, i] > 0}
    seen = {draw_tokens(logits_1V, [Draw(Sampling(seed=seed, top_p=0.6), 3)])[0] for seed in range(400)}
    assert seen <= allowed
    assert len(seen) > 1
    assert draw_tokens(logits_1V, [Draw(Sampling(seed=5, temperature=1.3, top_k=1), 3)]) == [int(logits_1V.argmax())]
