"""How long a pass of so many rows takes, from the counts that were measured and from passes that were seen.

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


class PassTimes:
    """Expected seconds of a pass by its rows: a shape measured at start, times one factor that is learnt.

    One factor for all counts (load, context length, the other device's use of the memory), so that counts seen often
    and counts seen rarely stay comparable; outliers count little.
    """

    def __init__(self) -> None:
        self._shape: dict[int, float] = {}
        self._scale = 1.0

    def measured(self, times: Mapping[int, float]) -> None:
        """Times from a measurement. More rows never cost less."""
        self._shape = _monotone(dict(sorted(times.items())))
        self._scale = 1.0

    def took(self, rows: int, seconds: float) -> None:
        """A pass of `rows` rows took `seconds`."""
        if not self._shape:
            self._shape = {rows: seconds}
        ratio = min(seconds / time_for(self._shape, rows), 2 * self._scale)
        self._scale += 0.1 * (ratio - self._scale)

    def seconds(self, rows: int) -> float:
        """Expected time for `rows` rows; 0 when nothing was ever seen."""
        return self._scale * time_for(self._shape, rows) if self._shape else 0.0

    def known(self) -> Mapping[int, float]:
        """What is expected now, for the counts that were measured."""
        return {rows: self._scale * seconds for rows, seconds in sorted(self._shape.items())}


def _monotone(times: dict[int, float]) -> dict[int, float]:
    """The nearest non-decreasing sequence: neighbours out of order are pooled to their mean."""
    pools: list[tuple[float, list[int]]] = []
    for rows, seconds in times.items():
        pools.append((seconds, [rows]))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (high, left), (low, right) = pools[-2], pools[-1]
            mean = (high * len(left) + low * len(right)) / (len(left) + len(right))
            pools[-2:] = [(mean, left + right)]
    return {rows: mean for mean, members in pools for rows in members}
