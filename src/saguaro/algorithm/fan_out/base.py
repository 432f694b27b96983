"""What a fan-out policy promises. Section 4.1. Must not know: engines. Tests: tests/conformance/test_fan_out.py."""

from __future__ import annotations

from typing import ClassVar, Protocol


class FanOutPolicy(Protocol):
    """Decides how many bonus tokens are guessed after each number of accepted tokens.

    A policy that is `ranked` leaves the choice to the draft, which takes the likeliest outcomes of each round.
    """

    ranked: ClassVar[bool]

    def counts(self, lookahead: int, budget: int, *, acceptance: float, last_hit: bool) -> tuple[int, ...]:
        """F_0 ... F_K for a round that verifies `lookahead` tokens.

        Args:
            lookahead: number of proposed tokens of this row in this round; may be 0, and less than the configured K.
            budget: B, the most that the counts may sum to.
            acceptance: the running estimate of the rate at which proposed tokens are accepted.
            last_hit: whether the proposal under verification came from the cache (F^p) or from a fallback (F^b).

        Returns:
            lookahead + 1 counts, none below 0, with a sum of at most `budget`; equal arguments give equal counts.
        """
        ...
