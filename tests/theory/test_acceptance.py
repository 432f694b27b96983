import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.errors import ConfigError
from saguaro.theory.acceptance import (
    acceptance_rate,
    expected_by_depth,
    expected_tokens,
    number_accepted,
    shared_noise_floor,
)

rates = st.lists(st.floats(0, 1), max_size=8)


def normalised(weights):
    return [w / sum(weights) for w in weights]


laws = st.lists(st.floats(0.01, 1), min_size=2, max_size=6).map(normalised)


@given(laws, st.randoms())
def test_theorem_1_both_forms(p, random):
    q = list(p)
    random.shuffle(q)
    half_distance = sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
    assert acceptance_rate(p, q) == pytest.approx(1 - half_distance)


@given(rates)
def test_law_of_number_accepted_by_listing_every_pattern(given_rates):
    law = [0.0] * (len(given_rates) + 1)
    for pattern in itertools.product([True, False], repeat=len(given_rates)):
        weight = math.prod(a if ok else 1 - a for a, ok in zip(given_rates, pattern, strict=True))
        accepted = next((i for i, ok in enumerate(pattern) if not ok), len(pattern))
        law[accepted] += weight
    assert number_accepted(given_rates) == pytest.approx(law, abs=1e-12)


@given(rates)
def test_expected_tokens_is_one_more_than_the_mean_accepted(given_rates):
    law = number_accepted(given_rates)
    assert sum(law) == pytest.approx(1)
    assert expected_tokens(given_rates) == pytest.approx(1 + sum(k * w for k, w in enumerate(law)))


@given(st.floats(0, 0.99), st.integers(0, 10))
def test_one_rate_gives_the_closed_form(a, lookahead):
    assert expected_tokens([a] * lookahead) == pytest.approx((1 - a ** (lookahead + 1)) / (1 - a))


def test_expected_by_depth():
    assert expected_by_depth([0.8, 0.5, 0.0]) == pytest.approx([1, 1.8, 2.2, 2.2])


def test_shared_noise_floor():
    assert shared_noise_floor(1.0) == 1
    assert shared_noise_floor(0.86) == pytest.approx(0.86 / 1.14)


def test_a_rate_is_a_probability():
    with pytest.raises(ConfigError, match=r"0 \.\.\. 1"):
        number_accepted([0.5, 1.2])
