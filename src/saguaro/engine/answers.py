"""What answers to misses have been worth: running estimates by source, and the books of the choice (DESIGN D9).

Counts rounds and tokens only, so that the same run gives the same choices. Must not know: clocks, channels, requests.
Tests: tests/engine/test_answers.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from saguaro.algorithm.choosing_fallback import Choice, Kind, Trial, Way, worth_of_a_hit
from saguaro.theory.fallback import critical_batch
from saguaro.theory.speedup import long_run_hit_rate

MEMORY = 200
"""Rounds that a running mean looks back on."""
SHRINKAGE = 32
"""Rounds of one source until its hit rate counts as much as that of all."""
ENOUGH = 32
"""Hits and misses to be seen before the hit rate of the next round counts."""
SLOW = ("hit", "neural", "forced")
"""Sources that are no fast fallback."""
TRIAL_SHARE, MOST_CREDIT, TRIAL_AFTER = 0.01, 8.0, 50
"""Trials cost this share of the tokens of rounds in which there is a choice; credit is saved up to so many; a kind is
tried when so many misses have gone by in which it was on offer and not taken.
"""


class Mean:
    """A running mean over about MEMORY values."""

    __slots__ = ("count", "value")

    def __init__(self) -> None:
        self.value, self.count = 0.0, 0

    def add(self, value: float) -> None:
        """One more value."""
        self.count += 1
        self.value += (value - self.value) / min(self.count, MEMORY)


class Means(dict[Any, Mean]):
    """Running means by name, made as they are needed."""

    def __missing__(self, name: Any) -> Mean:
        self[name] = mean = Mean()
        return mean


class Answers:
    """Tokens and hit rate after each source, what a hit is worth, how often each answer was chosen."""

    def __init__(self) -> None:
        self._tokens = Means()  # of the round that verifies a proposal, by source
        self._hits = Means()  # of the outcome of that round, by source
        self._hit_rate = Means()  # the same over all rounds whose proposal was a hit (True) or an answer (False)
        self._values = Means()  # what a hit (True) and a miss (False) were worth, waiting included
        self._depth = Mean()  # of hits
        self._fast = Mean()  # tokens of the round after an answer that took no draft
        self.chosen: Counter[str] = Counter()
        self.trials: Counter[str] = Counter()
        self._batches: dict[int, list[int]] = {}  # by rows: rounds with a miss, those of them that asked the draft
        self._passed_over: Counter[Kind] = Counter()
        self.credit = 0.0

    # -- what happened ------------------------------------------------------------------------------------------

    def verified(self, source: str, tokens: int) -> None:
        """The round that verified a proposal of `source` gave so many tokens."""
        self._tokens[source].add(tokens)
        if source not in SLOW:
            self._fast.add(tokens)

    def looked_up(self, source: str, covered: bool) -> None:
        """The outcome of a round whose proposal came from `source` was in the cache, or not."""
        self._hits[source].add(covered)
        self._hit_rate[source == "hit"].add(covered)

    def decided(self, ways: Sequence[Sequence[Way]], missed: Sequence[bool], choice: Choice, rate: float) -> None:
        """A choice was carried out; row by row the ways that there were, and whether it answers a miss."""
        waiting = sum(way.wait > 0 for way in choice.ways)
        for offered, miss, way, value in zip(ways, missed, choice.ways, choice.values, strict=True):
            share = rate * choice.wait / waiting if way.wait > 0 else 0.0
            self._values[not miss].add(value - way.future - share)
            if not miss:
                self._depth.add(way.depth)
                continue
            self.chosen[way.source] += 1
            for kind in {other.kind for other in offered}:
                self._passed_over[kind] += 1
            self._passed_over[way.kind] = 0

    def went_on(self, depth: int, value: float) -> None:
        """A lone row took a hit of so many tokens, without a choice among sources."""
        self._values[True].add(value)
        self._depth.add(depth)

    def earned(self, tokens: float) -> None:
        """So many tokens are expected of a round under a fallback that chooses; trials may cost a share of them."""
        self.credit = min(MOST_CREDIT, self.credit + TRIAL_SHARE * tokens)

    def tried(self, trial: Trial) -> None:
        """The choice was made to learn about something."""
        self.trials[trial.kind[0]] += 1
        self.credit -= trial.cost

    def overran(self, tokens: float) -> None:
        """The wait of a trial took longer than expected, by the time of so many tokens: later trials wait for it."""
        self.credit -= tokens

    def crossed(self, rows: int, *, asked: bool) -> None:
        """In a round of a batch with misses the draft was asked, by free choice, or not."""
        rounds = self._batches.setdefault(rows, [0, 0])
        rounds[0] += 1
        rounds[1] += asked

    # -- what follows -------------------------------------------------------------------------------------------

    def future(self, source: str) -> float:
        """Tokens that later rounds gain when this one is answered by `source`: p_hit after it times what a hit is
        worth. 0 until enough hits and misses were seen.
        """
        worth, after_miss = self.worth(), self._hit_rate[False].value
        own = self._hits[source]
        seen = min(own.count, MEMORY)
        return worth * (seen * own.value + SHRINKAGE * after_miss) / (seen + SHRINKAGE)

    def worth(self) -> float:
        """Tokens that the future holds more when the next outcome is a hit; 0 until enough hits and misses were
        seen.
        """
        hit, miss = self._values[True], self._values[False]
        if min(hit.count, miss.count) < ENOUGH:
            return 0.0
        after_hit, after_miss = self._hit_rate[True].value, self._hit_rate[False].value
        return worth_of_a_hit(value_hit=hit.value, value_miss=miss.value, after_hit=after_hit, after_miss=after_miss)

    def due(self, kinds: Iterable[Kind]) -> list[Kind]:
        """Those that have been passed over for long, the longest first."""
        waiting = [(self._passed_over[kind], kind) for kind in kinds]
        return [kind for times, kind in sorted(waiting, key=lambda each: (-each[0], each[1])) if times >= TRIAL_AFTER]

    def crossing(self) -> int | None:
        """The smallest batch in which fewer than half of the rounds with misses asked the draft; None if there is none
        among those seen.
        """
        return next((rows for rows, (rounds, asked) in sorted(self._batches.items()) if 2 * asked < rounds), None)

    def critical_batch(self, draft_step: float) -> float | None:
        """b* of Theorem 17 from the running estimates: hits as they are, answers without waiting as the fast fallback.

        Args:
            draft_step: seconds of a step of the draft in units of a verification.

        Returns:
            None where the theorem says nothing (too little is known, no hits or no misses, a draft slower than the
            target), or where the slow fallback is better at any batch.
        """
        hits, misses = self._hit_rate[True], self._hit_rate[False]
        if not (hits.count and misses.count and self._fast.count) or abs(hits.value - misses.value) >= 1:
            return None
        hit_rate = long_run_hit_rate(after_hit=hits.value, after_miss=misses.value)
        primary = self._depth.value * draft_step
        if not 0 < hit_rate < 1 or not 0 < primary <= 1:
            return None
        batch = critical_batch(
            hit_rate, tokens_hit=self._tokens["hit"].value, tokens_miss=self._fast.value, primary=primary
        )
        return batch if math.isfinite(batch) else None

    def statistics(self, draft_step: float) -> dict[str, Any]:
        """What is known, as plain values; `draft_step` as in `critical_batch`."""
        return {
            "chosen": dict(sorted(self.chosen.items())),
            "trials": dict(sorted(self.trials.items())),
            "tokens_after": {source: mean.value for source, mean in sorted(self._tokens.items()) if mean.count},
            "hit_rate_after": {source: mean.value for source, mean in sorted(self._hits.items()) if mean.count},
            "critical_batch": self.critical_batch(draft_step),
            "crossing": self.crossing(),
            "asked_by_batch": {rows: asked / rounds for rows, (rounds, asked) in sorted(self._batches.items())},
        }
