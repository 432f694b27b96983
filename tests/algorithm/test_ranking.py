import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.ranking import keep_best_, keep_nucleus_, stable_topk, top_ids

# Few distinct values, so that ties are everywhere.
tied_rows = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=40)


def by_sorting(scores, count):
    return sorted(range(len(scores)), key=lambda t: (-scores[t], t))[:count]


@given(tied_rows, st.integers(0, 45))
def test_ties_are_in_order_of_id(scores, count):
    order = by_sorting(scores, count)
    values, ids = stable_topk(torch.tensor([scores]), count)
    assert ids[0].tolist() == order
    assert values[0].tolist() == [scores[t] for t in order]
    assert top_ids(torch.tensor([scores]), count) == [order]
    if 0 < count <= len(scores):
        kept = torch.tensor(scores)
        keep_best_(kept, count)
        assert torch.isfinite(kept).nonzero()[:, 0].tolist() == sorted(order)
        assert kept[order].tolist() == [scores[t] for t in order]


@given(st.lists(tied_rows, min_size=2, max_size=5), st.integers(1, 9))
def test_rows_are_ranked_apart(rows, count):
    width = min(map(len, rows))
    rows = [row[:width] for row in rows]
    assert top_ids(torch.tensor(rows), count) == [by_sorting(row, count) for row in rows]


def test_what_is_masked_or_broken_is_not_listed():
    assert top_ids(torch.tensor([[-math.inf, 1.0, -math.inf, 2.0]]), 3) == [[3, 1]]
    assert top_ids(torch.tensor([[1.0, math.nan, 0.5]]), 2) == [[0]]


def test_a_row_of_one_value_over_a_full_vocabulary():
    assert top_ids(torch.zeros(2, 151_936), 5) == [[0, 1, 2, 3, 4]] * 2


def nucleus_by_sorting(scores, top_p):
    """Plain sums in float64, sorted in full."""
    order = torch.argsort(-scores, stable=True)
    weights = torch.exp(scores[order].double())
    before = weights.cumsum(0) - weights
    return torch.zeros_like(scores, dtype=torch.bool).index_fill(0, order[before < top_p * weights.sum()], True)


@pytest.mark.parametrize("vocab", [3, 200, 300, 5000, 151_936])
@pytest.mark.parametrize("spread", [0.02, 0.5, 4.0, 40.0])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 0.999])
def test_nucleus_equals_a_full_sort(vocab, spread, top_p):
    """Peaked and flat rows; at the edge float32 weights may decide a token more or less."""
    scores = spread * torch.randn(vocab, generator=torch.Generator().manual_seed(vocab))
    scores -= scores.max()
    kept = scores.clone()
    keep_nucleus_(kept, top_p)
    found, expected = torch.isfinite(kept), nucleus_by_sorting(scores, top_p)
    assert int((found ^ expected).sum()) <= 1 + 1e-5 * int(expected.sum())
    assert torch.equal(kept[found], scores[found])
    assert found.all() or scores[found].min() >= scores[~found].max()


@pytest.mark.parametrize("vocab", [100, 5000, 151_936])
def test_nucleus_of_a_flat_row_keeps_the_lowest_ids(vocab):
    kept = torch.zeros(vocab)
    keep_nucleus_(kept, 0.75)
    assert torch.isfinite(kept).nonzero()[:, 0].tolist() == list(range(math.ceil(0.75 * vocab)))


def test_nucleus_of_two_flat_levels():
    """The edge falls inside a level of equal scores, far beyond the first look."""
    scores = torch.full((10_000,), -1.0)
    scores[5000:6000] = 0.0
    mass = 1000 + 9000 * math.exp(-1)
    keep_nucleus_(scores, (1000 + 2000.5 * math.exp(-1)) / mass)
    assert torch.isfinite(scores).nonzero()[:, 0].tolist() == [*range(2001), *range(5000, 6000)]


def test_nucleus_with_masked_and_very_low_scores():
    scores = torch.cat([torch.zeros(300), torch.full((300,), -50.0), torch.full((300,), -math.inf)])
    keep_nucleus_(scores, 1 - 1e-12)
    assert int(torch.isfinite(scores).sum()) in (300, 600)
    assert torch.isfinite(scores[:300]).all()
