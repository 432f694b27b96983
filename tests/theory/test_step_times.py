"""Times of passes whose number of rows was not measured."""

import pytest

from saguaro.theory.step_times import PER_ROW, PassTimes, time_for


def test_times_between_and_beyond_the_measured_ones():
    times = {1: 1.0, 4: 4.0, 8: 4.0}
    assert time_for(times, 4) == 4.0
    assert time_for(times, 2) == pytest.approx(2.0)
    assert time_for(times, 6) == 4.0
    assert time_for(times, 12) == 4.0


def test_the_last_slope_goes_on():
    times = {1: 10.0, 4: 13.0, 8: 21.0}
    assert [time_for(times, rows) for rows in (1, 2, 4, 6, 8, 16)] == [10, 11, 13, 17, 21, 37]


def test_below_the_smallest_count_and_with_one_count_only():
    assert time_for({4: 13.0, 8: 21.0}, 1) == 13.0
    assert time_for({1: 1.0}, 3) == pytest.approx(1 + 2 * PER_ROW)


def test_a_time_that_falls_is_not_extended_below_the_last():
    assert time_for({1: 5.0, 4: 3.0}, 8) == 3.0


def test_a_shape_and_one_factor_that_follows_what_is_seen():
    times = PassTimes()
    assert (times.seconds(3), dict(times.known())) == (0.0, {})
    times.measured({1: 1.0, 2: 1.4, 4: 1.2})  # more rows never cost less: neighbours out of order share their mean
    assert dict(times.known()) == {1: 1.0, 2: pytest.approx(1.3), 4: pytest.approx(1.3)}
    for _ in range(200):
        times.took(2, 2.6)
    assert times.seconds(1) == pytest.approx(2.0, rel=1e-6)
    times.took(1, 1000.0)  # an outlier counts as twice the usual time
    assert times.seconds(1) == pytest.approx(2.2, rel=1e-6)
