"""From the reports of rounds to the counters of `RequestMetrics`: for one request, or for all of an engine in one.

Every definition is in docs/metrics.md. Must not know: text, engines, clocks. Tests: tests/engine/test_counting.py.
"""

from __future__ import annotations

from saguaro.engine.sequence import RoundReport
from saguaro.request import RequestMetrics


class RoundCounter:
    """Adds the rounds of one request to `metrics`, which may be shared with other requests.

    Args:
        metrics: what is added to.
        prompt_tokens: length of the prompt.
        looks_up: whether the request's rounds look a cache up (SSD).
        keeps_rounds: keep seconds and tokens of every single round.
    """

    def __init__(
        self, metrics: RequestMetrics, *, prompt_tokens: int, looks_up: bool, keeps_rounds: bool = True
    ) -> None:
        self.metrics = metrics
        self.looks_up = looks_up
        self._prompt_tokens = prompt_tokens
        self._keeps_rounds = keeps_rounds
        self._time = 0.0  # when the round before this one ended
        self._preemptions = 0
        self._was_hit: bool | None = None  # the proposal of the round before this one

    def add(self, report: RoundReport, kept: int) -> None:
        """Count one round, of whose tokens `kept` were returned; or the end of prefill, which is no round."""
        m = self.metrics
        m.preemptions += report.preemptions - self._preemptions
        self._preemptions = report.preemptions
        if report.source == "prefill":
            m.cached_tokens += report.cached_tokens
            m.prefill_tokens += self._prompt_tokens - report.cached_tokens
            m.prefill_seconds += report.verify_seconds
        else:
            self._round(report, kept)
        self._time = report.time

    def _round(self, report: RoundReport, kept: int) -> None:
        m = self.metrics
        seconds = report.time - self._time
        m.rounds += 1
        m.decode_seconds += seconds
        if self._keeps_rounds:
            m.round_tokens.append(kept)
            m.round_seconds.append(seconds)
        m.drafted += report.proposed
        m.accepted += kept - 1
        tried = min(report.accepted + 1, report.proposed) if report.tried is None else report.tried
        m.verified += tried
        accepted = min(report.accepted, kept - 1)  # what a stop string cut off counts nowhere
        _reached(m.accepted_per_position, accepted)
        _reached(m.verified_per_position, tried)
        depth, pending, handover = report.waits
        m.target_wait_seconds += report.wait_seconds
        m.wait_depth_seconds += depth
        m.wait_pending_seconds += pending
        m.handover_seconds += handover
        m.verify_seconds += report.verify_seconds
        m.draw_seconds += report.draw_seconds
        if self.looks_up and report.looked:
            self._look_up(report, accepted, tried)
        else:
            self._was_hit = None

    def _look_up(self, report: RoundReport, accepted: int, tried: int) -> None:
        """The look-up that gave the round its proposal, and how that proposal fared."""
        m, lookup, hit = self.metrics, report.lookup, report.source == "hit"
        m.branches += lookup.branches
        if hit:
            m.hits += 1
            m.hit_depth_sum += report.depth
            _reached(m.hit_accepted_per_position, accepted)
            _reached(m.hit_verified_per_position, tried)
        else:
            m.misses += 1
            assert lookup.reason is not None
            m.miss_reasons[lookup.reason] += 1
            _reached(m.miss_accepted_per_position, accepted)
            _reached(m.miss_verified_per_position, tried)
        if lookup.accepted is not None:
            _at(m.rounds_by_accepted, lookup.accepted, 1)
            _at(m.hits_by_accepted, lookup.accepted, int(hit))
        if self._was_hit is True:
            m.rounds_after_hit += 1
            m.hits_after_hit += hit
        elif self._was_hit is False:
            m.rounds_after_miss += 1
            m.hits_after_miss += hit
        self._was_hit = hit


def _reached(counts: list[int], upto: int) -> None:
    """Add one to the first `upto` entries."""
    if upto > len(counts):
        counts.extend([0] * (upto - len(counts)))
    for position in range(upto):
        counts[position] += 1


def _at(counts: list[int], index: int, more: int) -> None:
    """Add to one entry."""
    counts.extend([0] * (index + 1 - len(counts)))
    counts[index] += more
