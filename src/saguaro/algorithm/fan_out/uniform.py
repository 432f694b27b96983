"""The same fan-out everywhere, Section 4.1.3. Must not know: laws. Tests: tests/conformance/test_fan_out.py."""

from __future__ import annotations

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.theory.evidence import Evidence


class Uniform(FanOutPolicy):
    """F_k = B // (K + 1); what is left over goes one by one to k = 0, 1, ..."""

    def counts(self, lookahead: int, budget: int, evidence: Evidence, *, after_hit: bool) -> tuple[int, ...]:
        """See `FanOutPolicy.counts`."""
        each, left = divmod(budget, lookahead + 1)
        return tuple(each + (k < left) for k in range(lookahead + 1))
