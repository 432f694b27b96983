import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.noise import row_key
from saguaro.algorithm.sampling import (
    BROKEN_ROW,
    draw_from_law,
    draw_shared_noise,
    law,
    processed_scores,
    uniform,
)
from saguaro.errors import ConfigError

# Few distinct values, so that ties are everywhere.
tied_rows = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=40)


def keys(count, seed=0):
    return [row_key(seed, 0, position) for position in range(count)]


def p_value(counts, expected):
    kept = expected > 0
    assert int(counts[~kept].sum()) == 0
    statistic = float(((counts - expected)[kept] ** 2 / expected[kept]).sum())
    freedom = torch.tensor((int(kept.sum()) - 1) / 2).double()
    return float(torch.special.gammaincc(freedom, torch.tensor(statistic / 2).double()))


def plain_filter(logits, temperature, top_k, top_p):
    """Sort everything, keep what the options say: ids that keep a finite score."""
    order = sorted(range(len(logits)), key=lambda t: (-logits[t], t))
    if top_k:
        order = order[:top_k]
    weights = [math.exp((logits[t] - max(logits)) / temperature) for t in order]
    kept, reached = [], 0.0
    for token, weight in zip(order, weights, strict=True):
        if top_p < 1 and reached >= top_p * sum(weights) * (1 - 1e-6):
            break
        kept.append(token)
        reached += weight
    return sorted(kept)


@given(tied_rows, st.sampled_from([0.3, 1.0, 2.5]), st.integers(0, 45), st.sampled_from([0.1, 0.5, 0.77, 0.95, 1.0]))
def test_filters_equal_a_plain_sort(logits, temperature, top_k, top_p):
    scores = processed_scores(torch.tensor([logits]), temperature, top_k, top_p)[0]
    kept = torch.isfinite(scores).nonzero()[:, 0].tolist()
    assert kept == plain_filter(logits, temperature, top_k, top_p)
    assert scores.max() == 0
    expected = torch.tensor([logits[t] - max(logits) for t in kept]) / temperature
    assert torch.allclose(scores[kept], expected)


def test_top_p_looks_beyond_its_first_candidates():
    """A flat law of 5,000 tokens, where 256 candidates reach 5 % only."""
    flat = torch.zeros(1, 5000)
    assert int(torch.isfinite(processed_scores(flat, 1.0, 0, 0.9)).sum()) == 4500
    assert torch.isfinite(processed_scores(flat, 1.0, 0, 0.9)[0, :4500]).all()


def test_top_k_before_top_p():
    logits = torch.log(torch.tensor([[0.4, 0.3, 0.2, 0.1]]))
    kept = torch.isfinite(processed_scores(logits, 1.0, 2, 0.5)).tolist()[0]
    assert kept == [True, False, False, False]  # .4 of the .7 that top-k leaves reaches one half


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([5, 16, 700]))
def test_a_row_never_depends_on_the_rows_beside_it(seed, rows, vocab):
    made = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocab, generator=made) * 3
    temperatures = [(0.0, 0.7, 1.0)[i % 3] for i in range(rows)]
    ks, ps = [(0, 3)[i % 2] for i in range(rows)], [(1.0, 0.8, 0.4)[(i + seed) % 3] for i in range(rows)]
    scores = processed_scores(logits, temperatures, ks, ps)
    laws = law(logits, temperatures, ks, ps)
    drawn = draw_shared_noise(logits, temperatures, ks, ps, keys=keys(rows))
    for i in range(rows):
        alone = (logits[i : i + 1], temperatures[i], ks[i], ps[i])
        assert torch.equal(processed_scores(*alone)[0], scores[i])
        assert torch.equal(law(*alone)[0], laws[i])
        assert draw_shared_noise(*alone, keys=keys(rows)[i : i + 1]) == [drawn[i]]


def test_full_vocabulary_rows_do_not_depend_on_the_batch():
    logits = torch.randn(4, 151_936, generator=torch.Generator().manual_seed(0)) * 4
    together = law(logits, 0.8, 0, 0.9)
    for i in range(4):
        assert torch.equal(law(logits[i : i + 1].clone(), 0.8, 0, 0.9)[0], together[i])


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.6, 0, 1.0), (1.7, 5, 1.0), (1.0, 0, 0.7), (1.3, 9, 0.8)]
)
def test_shared_noise_draws_from_the_law(temperature, top_k, top_p):
    """The Gumbel-max trick: argmax of score + noise has the law softmax(score), here over 60,000 positions."""
    logits = torch.randn(1, 16, generator=torch.Generator().manual_seed(4)) * 1.5
    rows = 60_000
    drawn = (
        draw_shared_noise(logits.expand(rows, -1), temperature, keys=keys(rows)) if top_k == 0 and top_p == 1 else None
    )
    if drawn is None:  # filters are the same for every row: process one
        scores = processed_scores(logits, temperature, top_k, top_p)
        drawn = draw_shared_noise(scores.expand(rows, -1), 1.0, keys=keys(rows))
    counts = torch.tensor(drawn).bincount(minlength=16)
    expected = law(logits.double(), temperature, top_k, top_p)[0] * rows
    assert p_value(counts, expected) > 1e-3


def test_shared_noise_acceptance_of_two_laws():
    """Two models that share the noise agree at least (1 - TV) / (1 + TV) of the time (DESIGN D1)."""
    made = torch.Generator().manual_seed(8)
    p_logits, rows = torch.randn(1, 16, generator=made), 40_000
    q_logits = p_logits + 0.4 * torch.randn(1, 16, generator=made)
    p, q = law(p_logits)[0], law(q_logits)[0]
    distance = float((p - q).abs().sum() / 2)
    mine = torch.tensor(draw_shared_noise(p_logits.expand(rows, -1), keys=keys(rows)))
    theirs = torch.tensor(draw_shared_noise(q_logits.expand(rows, -1), keys=keys(rows)))
    agree = float((mine == theirs).float().mean())
    assert (1 - distance) / (1 + distance) - 0.01 < agree < 1 - distance + 0.01


def test_temperature_0_takes_the_lowest_of_the_best():
    logits = torch.tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    assert draw_shared_noise(logits, 0.0, keys=keys(2)) == [1, 0]
    assert draw_shared_noise(logits, 0.0, 2, 0.3, keys=keys(2)) == [1, 0]
    assert law(logits, 0.0).tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


def test_top_k_1_is_greedy_at_any_temperature():
    logits = torch.tensor([[1.0, 3.0, 3.0, 0.0]])
    assert draw_shared_noise(logits, 5.0, 1, keys=keys(1)) == [1]


@pytest.mark.parametrize("temperature", [1e-30, 1e-10, 1e-4, 100.0])
def test_extreme_temperatures_stay_finite(temperature):
    logits = torch.tensor([[300.0, -300.0, 299.0]])
    scores = processed_scores(logits, temperature)
    assert not torch.isnan(scores).any()
    assert law(logits, temperature).sum() == pytest.approx(1)
    if temperature < 1:
        assert draw_shared_noise(logits, temperature, keys=keys(1)) == [0]


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_broken_row_fails_alone(poison, temperature):
    good = torch.randn(3, 12, generator=torch.Generator().manual_seed(2))
    bad = good.clone()
    bad[1, 7] = poison
    expected = draw_shared_noise(good, temperature, 4, 0.9, keys=keys(3))
    assert draw_shared_noise(bad, temperature, 4, 0.9, keys=keys(3)) == [expected[0], BROKEN_ROW, expected[2]]
    assert draw_from_law(law(bad, temperature), [0.5] * 3)[1] == BROKEN_ROW


def test_a_row_without_any_token_is_broken():
    assert draw_shared_noise(torch.full((1, 4), -math.inf), 1.0, keys=keys(1)) == [BROKEN_ROW]


def test_one_value_a_row_or_one_for_all():
    with pytest.raises(ConfigError, match="2 sampling values were given for 3 rows"):
        processed_scores(torch.zeros(3, 4), [1.0, 0.5])


def test_bfloat16_logits_are_processed_in_float32():
    logits = torch.randn(2, 8, generator=torch.Generator().manual_seed(1)).bfloat16()
    assert law(logits).dtype == torch.float32
    assert torch.equal(law(logits), law(logits.float()))


masses = st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0, 3.0]), min_size=1, max_size=12)


@given(masses, st.floats(2**-53, 1 - 2**-53))
def test_draw_from_law_inverts_the_cumulative_law(weights, u):
    total = sum(weights)
    drawn = draw_from_law(torch.tensor([weights], dtype=torch.float64), [u])[0]
    if total == 0:
        assert drawn == BROKEN_ROW
        return
    assert weights[drawn] > 0
    below, upto = sum(weights[:drawn]), sum(weights[: drawn + 1])
    assert below - 1e-9 <= u * total <= upto + 1e-9


def test_draw_from_law_at_the_ends():
    p = torch.tensor([[0.0, 0.25, 0.75, 0.0]])
    assert draw_from_law(p, [2.0**-53]) == [1]
    assert draw_from_law(p, [1 - 2.0**-53]) == [2]
    assert draw_from_law(p, [0.0]) == [1]
    assert draw_from_law(p, [1.0]) == [2]


def test_uniform_is_open_and_uses_every_part_of_its_key():
    base = {"position": 5, "round_number": 2, "branch": (1, 7), "purpose": "draft"}
    changes = [{}, {"position": 6}, {"round_number": 3}, {"branch": (2, 7)}, {"branch": (1, 8)}, {"branch": None}]
    changes += [{"purpose": "accept"}, {"purpose": "residual"}]
    numbers = [uniform(1, 0, **{**base, **change}) for change in changes] + [
        uniform(2, 0, **base),
        uniform(1, 1, **base),
    ]
    assert len(set(numbers)) == len(numbers)
    assert all(0 < number < 1 for number in numbers)
    assert uniform(1, 0, **base) == numbers[0]


@pytest.mark.parametrize("bits", [0, 2**64 - 1])
def test_uniform_excludes_both_ends(bits, monkeypatch):
    monkeypatch.setattr("saguaro.algorithm.sampling.draw_bits", lambda *args, **kwargs: bits)
    assert 0 < uniform(0, 0, position=0, round_number=0, branch=None, purpose="draft") < 1
