"""Running estimates on the target's side: what the waiting rule and the policies decide by (DESIGN D3, D8).

Times are seconds. Must not know: channels, models, requests. Tests: tests/engine/test_metrics.py.
"""

from __future__ import annotations

from collections.abc import Mapping

PRIOR_ACCEPTANCE = 0.8
PRIOR_WEIGHT = 8.0
DECAY = 0.98


class Estimates:
    """Acceptance by position, time of a verification by rows, and tokens a second in the long run."""

    def __init__(self, max_lookahead: int) -> None:
        self._tried = [PRIOR_WEIGHT] * max_lookahead
        self._kept = [PRIOR_WEIGHT * PRIOR_ACCEPTANCE] * max_lookahead
        self._verify: dict[int, float] = {}
        self._tokens = 0.0
        self._seconds = 0.0

    def verified(self, proposed: int, accepted: int) -> None:
        """One row's outcome: `accepted` of `proposed` tokens; positions after the first rejection say nothing."""
        for position in range(min(proposed, accepted + 1, len(self._tried))):
            self._tried[position] = self._tried[position] * DECAY + 1
            self._kept[position] = self._kept[position] * DECAY + (position < accepted)

    def acceptance(self, lookahead: int) -> list[float]:
        """Probability that position j is accepted given that all before it were, j = 0 ... lookahead - 1."""
        return [self._kept[j] / self._tried[j] for j in range(min(lookahead, len(self._tried)))]

    def mean_acceptance(self) -> float:
        """One number for policies that take one (Theorem 12's a)."""
        return sum(self._kept) / sum(self._tried)

    def verify_took(self, rows: int, seconds: float) -> None:
        """A verification of `rows` tokens took `seconds`; outliers count little."""
        known = self._verify.get(rows)
        if known is None:
            self._verify[rows] = seconds
        else:
            self._verify[rows] = known + 0.2 * (min(seconds, 2 * known) - known)

    def verify_seconds(self, rows: int) -> float:
        """Expected time for `rows` tokens: measured, or the nearest measured count scaled gently."""
        if not self._verify:
            return 0.05
        if rows in self._verify:
            return self._verify[rows]
        nearest = min(self._verify, key=lambda known: abs(known - rows))
        return max(1e-4, self._verify[nearest] * (1 + 0.03 * (rows - nearest)))

    def known_verify_seconds(self) -> Mapping[int, float]:
        """What was measured, by rows."""
        return dict(sorted(self._verify.items()))

    def round_took(self, tokens: int, seconds: float) -> None:
        """A whole round, waiting included, gave `tokens` tokens."""
        self._tokens = self._tokens * DECAY + tokens
        self._seconds = self._seconds * DECAY + seconds

    def rate(self) -> float:
        """Tokens a second in the long run; before any round, that of one token a verification."""
        if self._seconds <= 0:
            return 1.0 / self.verify_seconds(1)
        return self._tokens / self._seconds
