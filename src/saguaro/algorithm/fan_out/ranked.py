"""Each round, the likeliest outcomes by the draft's own scores, wherever they are (DESIGN D8).

The draft alone can choose (`algorithm/odds.py`); the counts say how the budget is spread on average, which is what
Saguaro sampling needs to know before the draw. Must not know: engines. Tests: tests/conformance/test_fan_out.py.
"""

from __future__ import annotations

from typing import ClassVar

from saguaro.algorithm.fan_out.geometric import Geometric


class Ranked(Geometric):
    """Counts of `geometric`, and the word to the draft that it may choose better."""

    ranked: ClassVar[bool] = True
