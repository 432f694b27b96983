"""Keyed noise and noisy argmax against the same formulas in float64 torch, bit for bit."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saguaro.algorithm.noise import hash_tokens, row_key
from saguaro.native import argmax_noisy, gumbel, top_noisy


def noise(key, ids):
    """float32(-log(-log1p(-u))) in float64, rounded once."""
    u = (hash_tokens(key, ids.long()).double() + 0.5) * 2.0**-32
    return (-torch.log(-torch.log1p(-u))).float()


def scores(logits_RV, keys, temperature_R, ids_V):
    rows = []
    for x_V, key, temperature in zip(logits_RV, keys, temperature_R.tolist(), strict=True):
        divisor = torch.tensor(temperature, dtype=torch.float32)
        rows.append((x_V - x_V.max()) / divisor + noise(key, ids_V) if temperature > 0 else x_V)
    return torch.stack(rows)


def ranked(scores_V, ids_V, n):
    order = sorted(range(len(ids_V)), key=lambda i: (-float(scores_V[i]), i))[:n]  # ties: the first column
    return [int(ids_V[i]) for i in order], [float(scores_V[i]) for i in order]


def run_top(logits_RV, keys, temperature_R, n, ids_V=None):
    rows = len(keys)
    out_ids, out_scores = torch.empty(rows, n, dtype=torch.int32), torch.empty(rows, n)
    top_noisy(logits_RV, torch.tensor(keys), temperature_R, out_ids, out_scores, token_ids_V=ids_V)
    return out_ids, out_scores


def run_argmax(logits_RV, keys, temperature_R, ids_V=None):
    out = torch.empty(len(keys), dtype=torch.int32)
    argmax_noisy(logits_RV, torch.tensor(keys), temperature_R, out, token_ids_V=ids_V)
    return out.tolist()


@pytest.mark.parametrize("key", [row_key(0, 0, 0), row_key(-1, 3, 7000), (0, 0), (2**32 - 1, 2**32 - 1)])
def test_noise_is_the_formula(key):
    found = torch.empty(50_001)
    gumbel(key, found)
    assert torch.equal(found, noise(key, torch.arange(50_001)))
    ids = torch.tensor([0, 5, 150_000, 2_000_000], dtype=torch.int32)
    some = torch.empty(4)
    gumbel(key, some, token_ids_V=ids)
    assert torch.equal(some, noise(key, ids))


def test_noise_has_the_tail_of_a_gumbel_law():
    """Mean, spread and the largest of 151,936 values lie where the law puts them."""
    value = torch.empty(151_936)
    tops = []
    for position in range(20):
        gumbel(row_key(1, 0, position), value)
        assert abs(float(value.mean()) - 0.5772157) < 5 * math.pi / math.sqrt(6 * 151_936)
        assert abs(float(value.std()) - math.pi / math.sqrt(6)) < 0.03
        tops.append(float(value.max()) - math.log(151_936))
    assert -0.6 < sum(tops) / 20 < 1.8  # Gumbel again: mean .58, standard error .29


@settings(max_examples=80)
@given(
    vocab=st.integers(1, 700),
    rows=st.integers(1, 4),
    temperature=st.sampled_from([0.0, 1e-30, 0.05, 0.7, 1.0, 3.0, 100.0]),
    spread=st.sampled_from([0.0, 0.5, 3.0, 30.0, 1e4]),
    seed=st.integers(0, 2**20),
    shortlist=st.booleans(),
)
def test_best_tokens_equal_the_whole_computation(vocab, rows, temperature, spread, seed, shortlist):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocab, generator=generator) * spread
    logits[torch.rand(rows, vocab, generator=generator) < 0.2] = -math.inf
    logits[:, 0] = spread
    ids = torch.randperm(151_936, generator=generator)[:vocab].int() if shortlist else None
    all_ids = ids if shortlist else torch.arange(vocab)
    keys = [row_key(seed, 0, position) for position in range(rows)]
    temperatures = torch.full((rows,), 0.0 if temperature < 1e-20 else temperature)
    wanted = scores(logits, keys, temperatures, all_ids)
    temperatures = torch.full((rows,), temperature)
    n = min(64, 1 + seed % 70)
    found_ids, found_scores = run_top(logits, keys, temperatures, n, ids)
    for row in range(rows):
        finite = int((wanted[row] > -math.inf).sum())
        best_ids, best_scores = ranked(wanted[row], all_ids, min(n, finite))
        assert found_ids[row].tolist() == best_ids + [-1] * (n - len(best_ids))
        assert found_scores[row].tolist() == best_scores + [-math.inf] * (n - len(best_scores))
    assert run_argmax(logits, keys, temperatures, ids) == found_ids[:, 0].tolist()


def test_equal_scores_go_to_the_lowest_id():
    logits = torch.zeros(2, 300)
    logits[:, [40, 41, 290]] = 5.0
    found, _ = run_top(logits, [(1, 2)] * 2, torch.zeros(2), 5)
    assert found.tolist() == [[40, 41, 290, 0, 1]] * 2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_broken_row_is_reported_alone(temperature):
    logits = torch.randn(5, 1000, generator=torch.Generator().manual_seed(1))
    keys, warm = [row_key(2, 0, p) for p in range(5)], torch.full((5,), temperature)
    good = run_argmax(logits, keys, warm)
    logits[1, 999], logits[2, 3], logits[3] = math.nan, math.inf, -math.inf
    assert run_argmax(logits, keys, warm) == [good[0], -1, -1, -1, good[4]]
    ids, values = run_top(logits, keys, warm, 3)
    assert ids[1].tolist() == [-1, -1, -1]
    assert values[1].tolist() == [-math.inf] * 3


def test_rows_may_have_their_own_temperature():
    logits = torch.randn(3, 400, generator=torch.Generator().manual_seed(1))
    keys = [row_key(2, 0, p) for p in range(3)]
    warm = torch.tensor([0.0, 1.0, 0.5])
    alone = [run_argmax(logits[i : i + 1], keys[i : i + 1], warm[i : i + 1])[0] for i in range(3)]
    assert run_argmax(logits, keys, warm) == alone


def test_the_law_is_the_softmax():
    """Over many keys, tokens come with their probability (Gumbel-max); chi-square with 15 degrees of freedom."""
    logits, count = torch.randn(16, generator=torch.Generator().manual_seed(3)), 40_000
    keys = [row_key(9, 0, position) for position in range(count)]
    found = torch.tensor(run_argmax(logits.repeat(count, 1), keys, torch.ones(count)))
    expected = torch.softmax(logits, 0) * count
    assert float(((torch.bincount(found, minlength=16) - expected) ** 2 / expected).sum()) < 37.7  # p = .001


def test_tensors_that_do_not_fit_are_refused():
    logits, keys, warm = torch.zeros(2, 10), torch.zeros(2, 2, dtype=torch.int64), torch.ones(2)
    with pytest.raises(ValueError, match="out_ids_R"):
        argmax_noisy(logits, keys, warm, torch.empty(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="keys_R2"):
        argmax_noisy(logits, keys[:1], warm, torch.empty(2, dtype=torch.int32))
    with pytest.raises(ValueError, match="1 \\.\\.\\. 64"):
        top_noisy(logits, keys, warm, torch.empty(2, 65, dtype=torch.int32), torch.empty(2, 65))
    with pytest.raises(ValueError, match="token_ids_V"):
        argmax_noisy(logits, keys, warm, torch.empty(2, dtype=torch.int32), token_ids_V=torch.arange(9).int())
