"""How long a pass of so many rows takes, from the counts that were measured.

Times are seconds. Must not know: torch, engines, who measured. Tests: tests/theory/test_step_times.py.
"""

from __future__ import annotations

from collections.abc import Mapping

PER_ROW = 0.03
"""Share that a row adds where only one count was measured."""


def time_for(times: Mapping[int, float], rows: int) -> float:
    """Seconds for `rows` rows: measured, interpolated between, or extended from the last two counts.

    Args:
        times: seconds by number of rows, at least one entry. Below the smallest count its time is taken as it is.
        rows: how many rows the pass has.
    """
    if rows in times:
        return times[rows]
    known = sorted(times)
    below = max((k for k in known if k < rows), default=known[0])
    above = min((k for k in known if k > rows), default=None)
    if above is None:
        if len(known) < 2:
            return times[below] * (1 + PER_ROW * (rows - below))
        previous = known[-2]
        slope = (times[below] - times[previous]) / (below - previous)
        return times[below] + max(0.0, slope) * (rows - below)
    share = (rows - below) / (above - below) if above != below else 0.0
    return times[below] + share * (times[above] - times[below])
