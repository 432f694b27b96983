"""No branches: SSD becomes plain SD (DESIGN D4). Must not know: anything. Tests: tests/conformance/test_fan_out.py."""

from __future__ import annotations

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.theory.evidence import Evidence


class NoBranches(FanOutPolicy):
    """F_k = 0 everywhere."""

    def counts(self, lookahead: int, budget: int, evidence: Evidence, *, after_hit: bool) -> tuple[int, ...]:
        """See `FanOutPolicy.counts`."""
        return (0,) * (lookahead + 1)
