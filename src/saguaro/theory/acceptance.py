"""How many drafted tokens a verification accepts, and how many tokens a round therefore gives.

Section 2.1 and Theorem 1. Rates are conditional: `rates[i]` is the probability that token i is accepted given that
all tokens before it were. One number for all positions is the special case `[a] * lookahead`.
Must not know: torch, engines. Tests: tests/theory/test_acceptance.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from saguaro.errors import ConfigError


def acceptance_rate(p: Sequence[float], q: Sequence[float]) -> float:
    """Theorem 1: the sum of min(p, q), which is 1 minus the total variation distance.

    Args:
        p: the target's law over the vocabulary.
        q: the draft's law over the same vocabulary.
    """
    return sum(min(a, b) for a, b in zip(p, q, strict=True))


def shared_noise_floor(rate: float) -> float:
    """The least acceptance that shared noise gives when the best coupling accepts `rate` (DESIGN D1).

    (1 - TV) / (1 + TV) with TV = 1 - rate. It is reached by no common pair of laws; measured values lie above.
    """
    distance = 1 - _probability("rate", rate)
    return (1 - distance) / (1 + distance)


def number_accepted(rates: Sequence[float]) -> list[float]:
    """The law of the number of accepted tokens: entry k is P(exactly k), for k = 0 ... len(rates).

    A capped geometric law when all rates are equal: a^k (1 - a) for k < K and a^K for k = K.
    """
    law, survive = [], 1.0
    for rate in rates:
        _probability("each rate", rate)
        law.append(survive * (1 - rate))
        survive *= rate
    return [*law, survive]


def expected_by_depth(rates: Sequence[float]) -> list[float]:
    """E(0) ... E(K): expected tokens of a round that runs d proposed tokens, the bonus token included.

    E(d) = 1 + sum over i <= d of the product of the first i rates; E(0) = 1.
    """
    expected, survive = [1.0], 1.0
    for rate in rates:
        survive *= _probability("each rate", rate)
        expected.append(expected[-1] + survive)
    return expected


def expected_tokens(rates: Sequence[float]) -> float:
    """E(K), the last entry of `expected_by_depth`."""
    return expected_by_depth(rates)[-1]


def _probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} must be a probability in 0 ... 1, not {value}.")
    return value
