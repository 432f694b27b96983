"""What is known of a pair when outcomes are predicted: acceptance by position and hit curves (Section 4.1.2).

Rounds are of two kinds, as in the paper: their proposal was a hit (primary), or it answered a miss (fallback), and
each kind has its own numbers. `RunningEvidence` starts from an assumption and follows the rounds that were seen; a
calibration profile may replace the assumption. Floats only. Must not know: torch, engines, files.
Tests: tests/theory/test_evidence.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from saguaro.theory.fan_out import PowerLaw
from saguaro.theory.fit import RunningAcceptance

AFTER_REJECTION = PowerLaw(c=0.5, r=0.5)
"""Assumed where a proposal is cut at k < d. The published curves and our own have c between .33 and .55 there."""
AFTER_ALL_ACCEPTED = PowerLaw(c=0.12, r=0.9)
"""Assumed after a whole proposal: nothing is excluded there, and the first guess is right in .88 of cases (D1)."""
ASSUMED_ACCEPTANCE, ASSUMED_HIT_RATE = 0.8, 0.75
LONGEST_CURVE = 64
RATE_WEIGHT, CURVE_WEIGHT, KEEP = 24.0, 64.0, 0.998
"""Rounds that what is known at first counts as, and what remains of a round's weight after the next one. Less weight
makes the counts follow chance: `optimal` then falls behind the fan-out that it would take with the right numbers."""
REFRESH = 16
"""Rounds between two looks at the counts, so that policies see the same numbers for a while."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Rounds of one kind.

    Args:
        rate: accepted over verified, all positions together (Theorem 12's a).
        acceptance: conditional acceptance by position; positions beyond take `rate`.
        after_rejection: entry F is the probability that the bonus token is among the first F guesses without the sent
            token, given k < d; entry 0 is 0.
        after_all: the same given k = d, where nothing is excluded.
    """

    rate: float
    acceptance: tuple[float, ...]
    after_rejection: tuple[float, ...]
    after_all: tuple[float, ...]

    def rates(self, lookahead: int) -> list[float]:
        """Conditional acceptance of positions 0 ... lookahead - 1."""
        known = self.acceptance[:lookahead]
        return [*known, *[self.rate] * (lookahead - len(known))]


def assumed(rate: float = ASSUMED_ACCEPTANCE) -> Evidence:
    """Evidence of nothing but an acceptance rate."""
    return Evidence(rate, (), _curve_of(AFTER_REJECTION), _curve_of(AFTER_ALL_ACCEPTED))


def _curve_of(law: PowerLaw) -> tuple[float, ...]:
    return tuple(law.hit(guesses) for guesses in range(LONGEST_CURVE + 1))


@dataclass
class _Curve:
    """Counts of the rank that the bonus token had, over what was assumed."""

    prior: tuple[float, ...]
    ranks: list[float] = field(default_factory=lambda: [0.0] * LONGEST_CURVE)
    total: float = 0.0

    def update(self, rank: int | None) -> None:
        self.total = self.total * KEEP + 1
        for place in range(LONGEST_CURVE):
            self.ranks[place] *= KEEP
        if rank is not None and rank < LONGEST_CURVE:
            self.ranks[rank] += 1

    def hits(self) -> tuple[float, ...]:
        found, curve = 0.0, [0.0]
        for place in range(LONGEST_CURVE):
            found += self.ranks[place]
            assumed_hit = self.prior[min(place + 1, len(self.prior) - 1)]
            curve.append((CURVE_WEIGHT * assumed_hit + found) / (CURVE_WEIGHT + self.total))
        return tuple(curve)


class _Kind:
    """Running counts of rounds of one kind."""

    def __init__(self, start: Evidence) -> None:
        self.acceptance = RunningAcceptance(start.rate, RATE_WEIGHT, KEEP, start.acceptance)
        self.rejected, self.all = _Curve(start.after_rejection), _Curve(start.after_all)
        self.rounds = 0
        self.known = start
        self._places = len(start.acceptance)

    def update(self, accepted: int, proposed: int, rank: int | None, *, listed: bool) -> None:
        self.acceptance.update(accepted, proposed)
        if listed:
            (self.all if accepted == proposed else self.rejected).update(rank)
        self.rounds += 1
        self._places = max(self._places, proposed)
        if self.rounds % REFRESH == 0:
            rates = tuple(self.acceptance.per_position(self._places))
            self.known = Evidence(self.acceptance.rate, rates, self.rejected.hits(), self.all.hits())


class RunningEvidence:
    """Follows the rounds of an engine; deterministic, so equal rounds give equal evidence."""

    def __init__(self, after_hit: Evidence | None = None, after_miss: Evidence | None = None) -> None:
        hit = after_hit or assumed()
        self._kinds = {True: _Kind(hit), False: _Kind(after_miss or hit)}

    def update(
        self, *, after_hit: bool, sent: Sequence[int], accepted: int, bonus: int, guesses: Sequence[int] | None
    ) -> None:
        """One round: its outcome (accepted, bonus), and the guesses of the bonus token at that position, best first
        (None when the draft had not come so far).
        """
        rank = None
        if guesses is not None:
            excluded = sent[accepted] if accepted < len(sent) else None
            allowed = [token for token in guesses if token != excluded]
            rank = allowed.index(bonus) if bonus in allowed else None
        self._kinds[after_hit].update(accepted, len(sent), rank, listed=guesses is not None)

    def of(self, *, after_hit: bool) -> Evidence:
        """What is known of rounds of one kind; changes every `REFRESH` rounds of it."""
        return self._kinds[after_hit].known
