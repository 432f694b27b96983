"""A paired bootstrap: right value, and an interval that knows the spread between units."""

import random

import pytest

from saguaro.errors import ConfigError
from saguaro.theory.bootstrap import paired_difference


def test_the_value_is_the_difference_of_the_rates():
    found = paired_difference([3, 4], [1, 4], [5, 5])
    assert found.value == pytest.approx(0.2)
    assert found.low <= found.value <= found.high


def test_equal_rates_have_an_interval_of_nothing():
    assert paired_difference([2, 7, 1], [2, 7, 1], [4, 9, 3]) == (0, 0, 0)


def test_pairing_takes_what_units_have_in_common_out():
    """Units differ widely, but in each the first has one more: no doubt about the sign."""
    second = [1, 9, 5, 0, 7, 3]
    found = paired_difference([each + 1 for each in second], second, [10] * 6)
    assert found == pytest.approx((0.1, 0.1, 0.1))


def test_the_interval_covers_as_often_as_it_says():
    draw, covered = random.Random(1), 0
    for _ in range(200):
        first = [sum(draw.random() < 0.7 for _ in range(20)) for _ in range(16)]
        second = [sum(draw.random() < 0.6 for _ in range(20)) for _ in range(16)]
        found = paired_difference(first, second, [20] * 16, draws=200)
        covered += found.low <= 0.1 <= found.high
    assert 175 <= covered <= 199


@pytest.mark.parametrize("values", [([], [], []), ([1], [1, 2], [3]), ([0], [0], [0])])
def test_nothing_to_compare_is_refused(values):
    with pytest.raises(ConfigError, match="every unit"):
        paired_difference(*values)
