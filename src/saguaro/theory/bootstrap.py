"""How sure a difference of two rates is: a paired bootstrap over units (prompts) that both were measured on.

Must not know: torch, engines, what the rates are. Tests: tests/theory/test_bootstrap.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from saguaro.errors import ConfigError


class Difference(NamedTuple):
    """A difference of two rates and its interval."""

    value: float
    low: float
    high: float


def paired_difference(
    first: Sequence[float], second: Sequence[float], trials: Sequence[float], *, level: float = 0.95, draws: int = 2000
) -> Difference:
    """rate(first) - rate(second), each the sum of successes over the sum of trials, with a percentile interval.

    Units are drawn with replacement, both rates from the same ones. The same numbers give the same interval.

    Args:
        first: successes of each unit.
        second: the same of the other.
        trials: trials of each unit, the same for both.
        level: share of the drawn differences that lies within the interval.
        draws: how often the units are drawn.

    Raises:
        ConfigError: without units or trials, or when the lengths differ.
    """
    if not len(first) == len(second) == len(trials) or sum(trials) <= 0:
        raise ConfigError("a paired bootstrap needs successes of both and trials for every unit.")
    gains = [a - b for a, b in zip(first, second, strict=True)]
    source, units = random.Random(0), range(len(trials))
    drawn = []
    for _ in range(draws):
        some = source.choices(units, k=len(trials))
        total = sum(trials[i] for i in some)
        drawn.append(sum(gains[i] for i in some) / total if total else 0.0)
    drawn.sort()
    tail = (1 - level) / 2
    low, high = (drawn[min(len(drawn) - 1, int(share * len(drawn)))] for share in (tail, 1 - tail))
    return Difference(sum(gains) / sum(trials), low, high)
