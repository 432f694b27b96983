"""Rounds as a chain of kinds: what Theorem 7 becomes when what a round gives depends on how its proposal was made.

The paper has two kinds, primary and backup, of equal verification time. Here a kind is whatever makes a difference (a
hit of some depth, an answer of some fallback), with its own tokens, its own time and its own odds of what follows; the
long run is that of the stationary law. Times may be in any unit. Must not know: torch, engines, what kinds there are.
Tests: tests/theory/test_chain.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from saguaro.errors import ConfigError


class Kind(NamedTuple):
    """Rounds whose proposal was made in one way.

    Args:
        tokens: expected tokens of such a round.
        time: expected time from its beginning to the next one's.
        follows: entry j is the probability that a round of kind j comes next; they sum to 1.
    """

    tokens: float
    time: float
    follows: tuple[float, ...]


class LongRun(NamedTuple):
    """Shares of the kinds, tokens and time of a round on average, and tokens per unit of time."""

    shares: tuple[float, ...]
    tokens: float
    time: float

    @property
    def rate(self) -> float:
        """Tokens per unit of time."""
        return self.tokens / self.time


def stationary(follows: Sequence[Sequence[float]]) -> list[float]:
    """The law that a chain settles in.

    Args:
        follows: row i holds the probabilities of what comes after i.

    Raises:
        ConfigError: when a row is no law, or the chain has several laws to settle in.
    """
    size = len(follows)
    for row in follows:
        if len(row) != size or min(row) < 0 or abs(sum(row) - 1) > 1e-9:
            raise ConfigError(f"what follows a kind is a law over {size} kinds, not {list(row)}.")
    # law * (P - 1) = 0, of which one equation is redundant and gives way to "they sum to 1".
    rows = [[follows[j][i] - (i == j) for j in range(size)] + [0.0] for i in range(size)]
    rows[-1] = [1.0] * (size + 1)
    for place in range(size):
        pivot = max(range(place, size), key=lambda i: abs(rows[i][place]))
        if abs(rows[pivot][place]) < 1e-12:
            raise ConfigError("the chain has no single law to settle in: some kinds never lead to the others.")
        rows[place], rows[pivot] = rows[pivot], rows[place]
        for i in range(size):
            if i != place and rows[i][place]:
                share = rows[i][place] / rows[place][place]
                rows[i] = [a - share * b for a, b in zip(rows[i], rows[place], strict=True)]
    return [max(0.0, rows[i][size] / rows[i][i]) for i in range(size)]


def long_run(kinds: Sequence[Kind]) -> LongRun:
    """Shares, tokens and time of a chain of rounds."""
    shares = stationary([kind.follows for kind in kinds])
    tokens = sum(share * kind.tokens for share, kind in zip(shares, kinds, strict=True))
    return LongRun(tuple(shares), tokens, sum(share * kind.time for share, kind in zip(shares, kinds, strict=True)))
