"""Only "everything was accepted" is prepared for, as AMUSD and PEARL do (Section 2.2).

They guess one bonus token; with a budget of B this takes the B best. Must not know: engines.
Tests: tests/conformance/test_fan_out.py.
"""

from __future__ import annotations

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.theory.evidence import Evidence


class AllAccepted(FanOutPolicy):
    """F_K = B, and nothing before it."""

    def counts(self, lookahead: int, budget: int, evidence: Evidence, *, after_hit: bool) -> tuple[int, ...]:
        """See `FanOutPolicy.counts`."""
        return (*(0,) * lookahead, budget)
