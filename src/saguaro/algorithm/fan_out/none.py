"""No branches: SSD becomes plain SD (DESIGN D4). Must not know: anything. Tests: tests/conformance/test_fan_out.py."""

from __future__ import annotations

from typing import ClassVar


class NoBranches:
    """F_k = 0 everywhere."""

    ranked: ClassVar[bool] = False

    def counts(self, lookahead: int, budget: int, *, acceptance: float, last_hit: bool) -> tuple[int, ...]:
        """See `FanOutPolicy.counts`."""
        return (0,) * (lookahead + 1)
