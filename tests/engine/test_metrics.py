"""Running estimates follow what they see."""

import pytest

from saguaro.engine.metrics import Estimates


def test_acceptance_starts_at_the_prior_and_converges() -> None:
    e = Estimates(4)
    assert e.acceptance(4) == [0.8] * 4
    for _ in range(400):
        e.verified(4, 2)
    a = e.acceptance(4)
    assert a[0] > 0.99
    assert a[1] > 0.99
    assert a[2] < 0.02
    assert a[3] == 0.8  # never reached, so nothing was learnt


def test_times_keep_their_shape_and_outliers_count_little() -> None:
    e = Estimates(4)
    e.verify.took(1, 0.1)
    assert e.verify_seconds(1) == 0.1
    assert 0.1 < e.verify_seconds(4) < 0.12
    e.verify.took(1, 100.0)
    assert e.verify_seconds(1) <= 0.11 + 1e-9


def test_one_factor_is_learnt_for_all_counts() -> None:
    e = Estimates(4)
    e.verify.measured({1: 0.10, 2: 0.12, 3: 0.11, 4: 0.20})
    assert e.verify_seconds(2) == e.verify_seconds(3) == pytest.approx(0.115)
    for _ in range(200):
        e.verify.took(4, 0.40)
    assert e.verify_seconds(1) == pytest.approx(0.20, rel=0.01)
    assert dict(e.verify.known()).keys() == {1, 2, 3, 4}


def test_the_rate_is_tokens_over_seconds() -> None:
    e = Estimates(4)
    e.verify.took(1, 0.5)
    assert e.rate() == 2.0
    for _ in range(500):
        e.round_took(3, 0.5)
    assert abs(e.rate() - 6.0) < 1e-6


def test_the_rate_follows_the_size_of_the_batch_at_once() -> None:
    e = Estimates(4)
    e.verify.measured({1: 0.1, 2: 0.1, 4: 0.1, 8: 0.2})
    assert e.rate(4) == pytest.approx(4 / 0.1)
    for _ in range(500):
        e.round_took(3, 0.1)
    assert e.rate(1, 2.0) == e.rate() == pytest.approx(30)
    assert e.rate(2, 2.0) == pytest.approx(60)  # two rows of two take no longer than one
    assert e.rate(4, 2.0) == pytest.approx(60)  # four take twice as long
    for _ in range(2000):
        e.round_took(12, 0.25, 4)
    assert e.rate(4, 2.0) == e.rate() == pytest.approx(48)
