"""Acceptance and miss curves from counts of rounds: what the formulas of this package are fed with.

Counts come from `RequestMetrics` (accepted and verified per position) and from the rank that the bonus token had in
the draft's list. Must not know: torch, engines, files. Tests: tests/theory/test_fit.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from saguaro.errors import ConfigError
from saguaro.theory.fan_out import PowerLaw


@dataclass
class RunningAcceptance:
    """A running estimate of the acceptance rate, overall and per position.

    Starts at `start`, which counts as `weight` verified tokens; each update multiplies what was seen before by
    `keep`, so that the estimate follows the text (`keep = 1` forgets nothing). A position without counts of its own
    leans on the overall rate, or on `by_position` where that was given. Deterministic: the same updates give the same
    floats.
    """

    start: float = 0.8
    weight: float = 8.0
    keep: float = 0.99
    by_position: tuple[float, ...] = ()
    _accepted: list[float] = field(default_factory=list)
    _verified: list[float] = field(default_factory=list)

    def update(self, accepted: int, proposed: int) -> None:
        """Add one round that proposed `proposed` tokens of which the first `accepted` were accepted."""
        for counts in (self._accepted, self._verified):
            counts.extend([0.0] * (proposed - len(counts)))
            for position in range(len(counts)):
                counts[position] *= self.keep
        for position in range(min(accepted + 1, proposed)):
            self._verified[position] += 1
            self._accepted[position] += position < accepted

    @property
    def rate(self) -> float:
        """Accepted over verified, all positions together."""
        return (self.start * self.weight + sum(self._accepted)) / (self.weight + sum(self._verified))

    def per_position(self, lookahead: int) -> list[float]:
        """The conditional rates of positions 0 ... lookahead - 1, each leaning on what was known."""
        rate, known = self.rate, len(self._verified)
        rates = []
        for position in range(lookahead):
            accepted, verified = (
                (self._accepted[position], self._verified[position]) if position < known else (0.0, 0.0)
            )
            before = self.by_position[position] if position < len(self.by_position) else rate
            rates.append((before * self.weight + accepted) / (self.weight + verified))
        return rates


def acceptance_per_position(accepted: Sequence[int], verified: Sequence[int]) -> list[float | None]:
    """Accepted over verified, for each position; None where nothing was verified."""
    return [a / v if v else None for a, v in zip(accepted, verified, strict=True)]


def misses_from_ranks(ranks: Sequence[int | None], *, largest: int) -> list[int]:
    """How many outcomes each fan-out would have missed: entry F - 1 counts ranks beyond the first F guesses.

    Args:
        ranks: 0-based rank of the bonus token among the guesses of its position; None if it was not in the list.
        largest: the largest fan-out asked for; lists must have been at least this long.
    """
    return [sum(rank is None or rank >= guesses for rank in ranks) for guesses in range(1, largest + 1)]


def fit_power_law(misses: Sequence[int], *, trials: Sequence[int], fan_outs: Sequence[int] | None = None) -> PowerLaw:
    """The power law c * F^-r under which the observed misses are likeliest (binomial, log link).

    Args:
        misses: how many of the trials were missed at each fan-out.
        trials: how many outcomes were looked up at each fan-out.
        fan_outs: the fan-outs, 1, 2, 3, ... by default; at least two different ones.

    Raises:
        ConfigError: with fewer than two fan-outs, or when nothing was missed at all but one of them.
    """
    sizes = list(fan_outs) if fan_outs is not None else list(range(1, len(misses) + 1))
    rows = [(math.log(f), m, n) for f, m, n in zip(sizes, misses, trials, strict=True) if n > 0 and f > 0]
    if len({x for x, _, _ in rows}) < 2 or sum(m > 0 for _, m, _ in rows) < 2:
        raise ConfigError("a power law needs misses at two different fan-outs or more; look at more rounds.")
    level, slope = _start(rows)
    for _ in range(100):
        step_level, step_slope = _scoring_step(rows, level, slope)
        level, slope = level + step_level, slope + step_slope
        if abs(step_level) + abs(step_slope) < 1e-12:
            break
    return PowerLaw(c=min(1.0, math.exp(level)), r=max(0.0, -slope))


def _start(rows: list[tuple[float, int, int]]) -> tuple[float, float]:
    """Least squares of log miss on log F, to start from."""
    points = [(x, math.log(m / n)) for x, m, n in rows if m > 0]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    return mean_y - slope * mean_x, slope


def _scoring_step(rows: list[tuple[float, int, int]], level: float, slope: float) -> tuple[float, float]:
    """One Fisher-scoring step for log miss = level + slope * log F."""
    a = b = d = u = v = 0.0
    for x, missed, tried in rows:
        mean = min(math.exp(level + slope * x), 1 - 1e-9)
        weight = tried * mean / (1 - mean)
        pull = (missed - tried * mean) / (1 - mean)
        a, b, d = a + weight, b + weight * x, d + weight * x * x
        u, v = u + pull, v + pull * x
    determinant = a * d - b * b
    if determinant <= 1e-12 * max(a * d, 1e-300):
        return 0.0, 0.0
    step_level, step_slope = (d * u - b * v) / determinant, (a * v - b * u) / determinant
    largest = max(abs(step_level), abs(step_slope), 1.0)
    return step_level / largest, step_slope / largest


@dataclass(frozen=True)
class PowerLawFit:
    """A power law with the standard errors of its two numbers, from the Fisher information."""

    law: PowerLaw
    c_error: float
    r_error: float
    trials: int


STEEPEST = 20.0


def fit_ranks(ranks: Sequence[int | None], *, largest: int) -> PowerLawFit:
    """The power law c * F^-r under which the observed ranks are likeliest.

    The fan-outs of a curve are looked up in the same rounds, so that their misses are nested and not independent; here
    each round counts once, by the smallest fan-out that would have hit. Then c is the share that the first guess
    misses, and r follows from those alone.

    Args:
        ranks: 0-based rank of the bonus token among the guesses of its position; None if it was not in the list.
        largest: length of the lists.

    Raises:
        ConfigError: when nothing was missed, or the lists hold fewer than two guesses.
    """
    missed = [rank for rank in ranks if rank is None or rank > 0]
    if not missed or largest < 2:
        raise ConfigError("a power law needs lists of two guesses or more and rounds that the first guess missed.")
    c = len(missed) / len(ranks)
    counts = [0] * (largest - 1)
    beyond = 0
    for rank in missed:
        if rank is None or rank >= largest:
            beyond += 1
        else:
            counts[rank - 1] += 1
    r, information = 0.5, 0.0
    for _ in range(100):
        score, information = _rank_score(counts, beyond, r, len(missed))
        step = max(-0.5, min(0.5, score / information))
        r, before = min(max(r + step, 1e-3), STEEPEST), r
        if abs(r - before) < 1e-10:
            break
    law = PowerLaw(c=c, r=r)
    return PowerLawFit(law, math.sqrt(c * (1 - c) / len(ranks)), 1 / math.sqrt(information), len(ranks))


def _rank_score(counts: Sequence[int], beyond: int, r: float, trials: int) -> tuple[float, float]:
    """Derivative of the log likelihood by r, and the expected information, of ranks given that the first guess missed.

    The chance that F guesses miss is F^-r then.
    """
    largest = len(counts) + 1
    misses = [f**-r for f in range(1, largest + 1)]
    slopes = [-math.log(f) * miss for f, miss in zip(range(1, largest + 1), misses, strict=True)]
    score = -beyond * math.log(largest)
    information = slopes[-1] ** 2 / misses[-1]
    for place, count in enumerate(counts):
        share = max(misses[place] - misses[place + 1], 1e-300)
        slope = slopes[place] - slopes[place + 1]
        score += count * slope / share
        information += slope**2 / share
    return score, max(trials * information, 1e-12)
