"""When requests arrive in the open loop: a Poisson process from a seeded generator.

Must not know: engines, clocks; times are seconds from the beginning of a loop. Tests: tests/bench/test_arrivals.py.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator


def arrivals(rate: float, *, seed: int, repeat: int, count: int | None, seconds: float | None) -> list[float]:
    """Arrival times of one loop, increasing.

    Each repeat has its own arrivals and every mode of a repeat has the same. Another rate stretches the same sequence,
    so that rates differ by nothing but the rate.

    Args:
        rate: mean arrivals a second, above 0.
        seed: key of the generator,
        repeat: together with this.
        count: so many arrivals; or
        seconds: all arrivals before this time.
    """
    times = _process(rate, random.Random(f"arrivals {seed} {repeat}"))
    if count is not None:
        return list(itertools.islice(times, count))
    assert seconds is not None
    return list(itertools.takewhile(lambda time: time < seconds, times))


def _process(rate: float, generator: random.Random) -> Iterator[float]:
    """Sums of exponential gaps of mean 1, divided by the rate."""
    at = 0.0
    while True:
        at += generator.expovariate(1.0)
        yield at / rate
