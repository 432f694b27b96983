import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.errors import ConfigError
from saguaro.theory.acceptance import number_accepted
from saguaro.theory.fan_out import PowerLaw, allocate, expected_hit_rate, geometric_shape, marginal_gains

accept = st.floats(0.05, 0.95)
exponent = st.floats(0.2, 1.5)
concave = st.builds(PowerLaw, c=st.floats(0.05, 0.6), r=st.floats(0.2, 1.5))


def real_hit_rate(a, r, counts):
    weights = number_accepted([a] * (len(counts) - 1))
    return sum(w * (1 - f**-r) for w, f in zip(weights, counts, strict=True))


@given(accept, exponent, st.integers(0, 7), st.floats(8, 64))
def test_theorem_12_sums_to_the_budget_and_has_its_ratios(a, r, lookahead, budget):
    shape = geometric_shape(a, r, lookahead=lookahead, budget=budget)
    assert len(shape) == lookahead + 1
    assert sum(shape) == pytest.approx(budget)
    for k in range(1, lookahead):
        assert shape[k] / shape[0] == pytest.approx(a ** (k / (1 + r)))
    if lookahead:
        assert shape[-1] / shape[0] == pytest.approx(a ** (lookahead / (1 + r)) * (1 - a) ** (-1 / (1 + r)))


@given(accept, exponent, st.integers(1, 7), st.data())
def test_theorem_12_is_the_optimum(a, r, lookahead, data):
    """Moving budget between any two positions lowers the hit rate (as long as all counts stay positive)."""
    shape = geometric_shape(a, r, lookahead=lookahead, budget=30.0)
    give, take = data.draw(st.permutations(range(lookahead + 1)))[:2]
    moved = list(shape)
    step = 0.3 * shape[give]
    moved[give], moved[take] = moved[give] - step, moved[take] + step
    assert real_hit_rate(a, r, moved) < real_hit_rate(a, r, shape)


@given(accept, exponent, st.integers(1, 6))
def test_theorem_18_conditions_hold_at_theorem_12(a, r, lookahead):
    """dp_k/dF(F_k) = a^-k dp_0/dF(F_0) for k < K, and (1 - a) a^-K dp_0/dF(F_0) for K."""
    shape = geometric_shape(a, r, lookahead=lookahead, budget=24.0)
    slope = [r * f ** (-r - 1) for f in shape]
    for k in range(lookahead):
        assert slope[k] == pytest.approx(a**-k * slope[0])
    assert slope[lookahead] == pytest.approx((1 - a) * a**-lookahead * slope[0])


def test_theorem_12_at_the_ends():
    assert geometric_shape(1.0, 0.5, lookahead=3, budget=8) == [0, 0, 0, 8]
    assert geometric_shape(0.0, 0.5, lookahead=3, budget=8) == [8, 0, 0, 0]
    assert geometric_shape(0.8, 0.5, lookahead=0, budget=8) == pytest.approx([8])
    with pytest.raises(ConfigError):
        geometric_shape(1.2, 0.5, lookahead=3, budget=8)


def test_power_law():
    law = PowerLaw(c=0.5, r=0.5)
    assert [law.miss(f) for f in (0, 1, 4)] == pytest.approx([1, 0.5, 0.25])
    assert law.hit(4) == pytest.approx(0.75)
    with pytest.raises(ConfigError):
        PowerLaw(c=1.5, r=0.5)


@given(accept, st.lists(concave, min_size=1, max_size=4), st.integers(0, 7))
def test_theorem_18_whole_numbers_are_the_best_of_all(a, laws, budget):
    weights = number_accepted([a] * (len(laws) - 1))
    counts = allocate(weights, [marginal_gains(law.hit, budget) for law in laws], budget=budget)
    best = max(
        expected_hit_rate(weights, [law.hit for law in laws], other)
        for other in itertools.product(range(budget + 1), repeat=len(laws))
        if sum(other) <= budget
    )
    assert expected_hit_rate(weights, [law.hit for law in laws], counts) == pytest.approx(best, abs=1e-12)
    assert sum(counts) == budget


@given(accept, st.integers(1, 7), st.integers(1, 40))
def test_whole_numbers_are_no_worse_than_rounding_the_theorem(a, lookahead, budget):
    law = PowerLaw(c=0.5, r=0.5)
    weights = number_accepted([a] * lookahead)
    hits = [law.hit] * (lookahead + 1)
    counts = allocate(weights, [marginal_gains(law.hit, budget)] * (lookahead + 1), budget=budget)
    rounded = [int(f) for f in geometric_shape(a, 0.5, lookahead=lookahead, budget=budget)]
    assert expected_hit_rate(weights, hits, counts) >= expected_hit_rate(weights, hits, rounded) - 1e-12


def test_ties_go_to_the_smaller_k():
    gains = marginal_gains(PowerLaw(c=0.5, r=0.5).hit, 4)
    assert allocate([0.25] * 4, [gains] * 4, budget=1) == (1, 0, 0, 0)
    assert allocate([0.25] * 4, [gains] * 4, budget=2) == (1, 1, 0, 0)


def test_guesses_that_add_nothing_are_not_taken():
    assert allocate([1.0, 0.0], [(0.5, 0.0), (0.5, 0.5)], budget=4) == (1, 0)


def test_gains_of_a_curve_with_a_dent_are_pooled():
    assert marginal_gains(lambda f: [0, 0.0, 0.6, 0.7][f], 3) == pytest.approx((0.3, 0.3, 0.1))
    # The paper's own law: the first guess is worth nothing alone, yet it must not block the second.
    gains = marginal_gains(PowerLaw(c=1, r=1).hit, 4)
    assert gains == pytest.approx((0.25, 0.25, 1 / 6, 1 / 12))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_pooled_gains_never_rise_and_keep_the_end(points):
    rising = [0.0, *itertools.accumulate(points, max)]
    gains = marginal_gains(lambda f: rising[f], len(points))
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(gains))
    assert sum(gains) == pytest.approx(rising[-1])
