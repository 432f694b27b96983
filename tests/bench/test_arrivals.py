"""Arrivals of an open loop: seeded, Poisson, the same for every mode."""

import itertools
import math

import pytest

from saguaro.bench.arrivals import arrivals


def made(rate=1.0, **options):
    return arrivals(rate, **{"seed": 0, "repeat": 0, "count": 50, "seconds": None, **options})


def test_the_same_key_gives_the_same_arrivals():
    assert made() == made()
    assert made() != made(seed=1)
    assert made() != made(repeat=1)
    assert made(seed=1, repeat=12) != made(seed=11, repeat=2)


def test_another_rate_stretches_the_same_sequence():
    assert made(2.0) == pytest.approx([time / 2 for time in made(1.0)])


def test_count_and_seconds():
    times = made()
    assert len(times) == 50
    assert times == sorted(times)
    assert times[0] > 0
    assert made(count=None, seconds=times[7]) == times[:7]
    assert made(count=None, seconds=times[0]) == []


def test_gaps_are_exponential():
    """Mean and deviation are 1 / rate within 5 of their own errors; a share of exp(-1) is longer than the mean."""
    count, rate = 20_000, 4.0
    times = [0.0, *made(rate, count=count)]
    gaps = [rate * (b - a) for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / count
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / count)
    longer = sum(gap > 1 for gap in gaps) / count
    assert mean == pytest.approx(1, abs=5 / math.sqrt(count))
    assert deviation == pytest.approx(1, abs=15 / math.sqrt(count))
    assert longer == pytest.approx(math.exp(-1), abs=2.5 / math.sqrt(count))
