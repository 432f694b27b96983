"""Which gear an engine drives in: `ar` (the draft is idle), `sd` (draft, then verify) or `ssd` (draft meanwhile).

What each gear is worth is kept for each number of running rows (1, 2, 3-4, 5-8, ...): how deep the proposals of its
rounds were, and how long the rounds took, waiting and the slowing of one device by the other included. Both are valued
at the acceptance of now, so that gears are compared on the same text although they ran on different ones. A gear that
was not tried is taken at what theory promises for the measured step times. The others are tried again for a few rounds,
at intervals that grow with what a trial costs: all trials together take less than a hundredth of the time.

Everything arrives as numbers, times included (seconds), so the same rounds lead to the same gears. Must not know:
clocks, engines, channels, requests. Tests: tests/engine/test_gears.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

GEARS = ("ar", "sd", "ssd")
DECAY = 0.97
DEPTHS = 20
STEADY_ROUNDS, OUTLIER = 4, 3.0
MARGIN, UNTRIED_MARGIN, AR_MARGIN = 1.04, 1.10, 1.02
"""A gear must promise so many times what the present one gives; more where the promise is theory alone. For `ar` less:
its passes of one token a row were measured at the start, and nobody is to be slower than without a draft.
"""
CHECK_ROUNDS, DWELL_ROUNDS = 4, 8
FEW_ROUNDS = 3.0
"""A gear is not left on fewer rounds."""
TRIAL_ROUNDS, TRIAL_ROWS = 5, 12
"""A trial lasts so many rounds, and until so many proposals (rows times rounds) have been seen."""
TRIAL_SHARE = 0.004
"""Share of the time that the trials of one gear may take from the others."""
LEAST_LOSS, UNTRIED_LOSS = 0.05, 0.25
"""A trial is expected to cost at least this share of its time: branches are dropped at each change. The first trial of
a gear more, since a draft that was idle begins with proposals of unknown worth: at 8 rows one gives .75 of AR's
tokens where theory, and the same gear later on, say .95.
"""
MOST_FAILURES = 4
SETTLING_ROUNDS = 2
"""After a change the proposals under way are those of the gear before."""
PATIENCE_ROUNDS = 64
"""Rounds that a trial waits for a draft that has to catch up."""
PROVEN_ROUNDS = 64
"""A gear that a trial has favoured must stay the better one for so long, or the trial has failed after all."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round of all rows without prefill.

    Args:
        depths: tokens proposed to each row, without the certain ones.
        certain: tokens that were certain to be accepted (a grammar left no other), over all rows.
        seconds: verification and waiting.
        ready: whether the draft holds the context of every row, so that the round says something about the gear.
        backlog: seconds that the rows would wait for a draft that has been idle to catch up.
    """

    depths: Sequence[int]
    certain: int
    seconds: float
    ready: bool = True
    backlog: float = 0.0

    @property
    def rows(self) -> int:
        """Rows of the round."""
        return len(self.depths)


@dataclass(slots=True)
class Record:
    """Rounds of one gear, as sums: `rounds`, their seconds in units of a pass of as many rows without proposals, and
    the mean row: its certain tokens, and how often it had a proposal of each depth.
    """

    rounds: float = 0.0
    units: float = 0.0
    certain: float = 0.0
    depths: list[float] = field(default_factory=lambda: [0.0] * DEPTHS)

    def add(self, r: Round, unit: float) -> None:
        """Add a round; `unit` is the time of a pass of its rows without proposals."""
        units = r.seconds / unit
        if self.rounds >= STEADY_ROUNDS:  # something else has held the machine up
            units = min(units, OUTLIER * self.units / self.rounds)
        self.rounds += 1
        self.units += units
        self.certain += r.certain / r.rows
        for depth in r.depths:
            self.depths[min(depth, DEPTHS - 1)] += 1 / r.rows

    def scale(self, factor: float) -> None:
        """Forget a part."""
        self.rounds *= factor
        self.units *= factor
        self.certain *= factor
        self.depths = [count * factor for count in self.depths]

    def worth(self, expected: Sequence[float]) -> float:
        """Tokens of a row per unit, with E(0), E(1), ... as they are now: the speed-up over passes of one token."""
        last = len(expected) - 1
        tokens = sum(count * expected[min(depth, last)] for depth, count in enumerate(self.depths) if count)
        return (tokens + self.certain) / self.units


@dataclass(slots=True)
class _Experience:
    """What is known of a gear at one number of rows. `seen`: busy time of that number when it last ran."""

    lately: Record = field(default_factory=Record)
    seen: float = 0.0
    failures: int = 0
    loss: float = 0.0

    @property
    def known(self) -> bool:
        return self.lately.rounds >= 0.5


@dataclass(slots=True)
class _Trial:
    """A gear that is being tried: where it came from, and what it did so far."""

    home: str
    bucket: int
    whole: Record = field(default_factory=Record)
    seconds: float = 0.0
    rounds: int = 0
    rows: int = 0
    waited: int = 0
    favoured: bool = False


def _margin(gear: str, known: bool = True) -> float:
    """What a gear must promise beside the present one."""
    if gear == "ar":
        return AR_MARGIN
    return MARGIN if known else UNTRIED_MARGIN


def bucket_of(rows: int) -> int:
    """0 for one row, 1 for two, 2 for three and four, 3 for five to eight, ..."""
    return max(0, rows - 1).bit_length()


def bucket_name(bucket: int) -> str:
    """`1`, `2`, `3-4`, `5-8`, ..."""
    low, high = (1 << bucket) // 2 + 1, 1 << bucket
    return str(high) if low >= high else f"{low}-{high}"


class Gears:
    """Chooses among `allowed` gears.

    Args:
        allowed: of `GEARS`, at least one.
        start: the gear to begin with.
        promise: tokens a second of all rows together that theory expects of (gear, rows).
        unit: seconds of a pass of so many rows without proposals, as measured once.
    """

    def __init__(
        self,
        allowed: Sequence[str],
        *,
        start: str,
        promise: Callable[[str, int], float],
        unit: Callable[[int], float],
    ) -> None:
        self.allowed = tuple(allowed)
        self.gear = start
        self.changes = 0
        self.trials = 0
        self._promise, self._unit = promise, unit
        self._known: dict[tuple[int, str], _Experience] = {}
        self._time: dict[int, float] = {}
        self._trial: _Trial | None = None
        self._since = 0
        self._bucket: int | None = None
        self._expected: Sequence[float] = (1.0,)

    def allow(self, allowed: Sequence[str]) -> None:
        """Other gears to choose among; what is known of all of them stays."""
        self.allowed = tuple(allowed)
        self._trial = None
        if self.gear not in self.allowed:
            self._change(self.allowed[-1])

    # -- one round ----------------------------------------------------------------------------------------------------

    def ended(self, r: Round, expected: Sequence[float]) -> str | None:
        """A round has ended; the gear to change to, if any.

        Args:
            r: the round, at least one row.
            expected: E(0), E(1), ... by the acceptance of now.
        """
        self._expected = expected
        bucket = bucket_of(r.rows)
        self._time[bucket] = self._time.get(bucket, 0.0) + r.seconds
        self._since += 1
        if self._trial is not None:
            return self._go_on_trying(self._trial, r, bucket)
        if self.changes and self._since <= SETTLING_ROUNDS:
            return None
        if r.ready:
            self._add(bucket, r)
        moved, self._bucket = bucket != self._bucket, bucket
        if self.changes and self._since < DWELL_ROUNDS:
            return None
        if not moved and self._since % CHECK_ROUNDS:
            return None
        better = self._better(bucket, r.rows)
        if better is not None:
            return self._change(better) if self._experience(bucket, better).known else self._try(better, bucket)
        due = self._due(bucket, r)
        return None if due is None else self._try(due, bucket)

    def _add(self, bucket: int, r: Round) -> None:
        experience = self._experience(bucket, self.gear)
        experience.lately.scale(DECAY)
        experience.lately.add(r, self._unit(r.rows))
        experience.seen = self._time[bucket]

    def _experience(self, bucket: int, gear: str) -> _Experience:
        return self._known.setdefault((bucket, gear), _Experience())

    def _change(self, gear: str) -> str:
        self.gear = gear
        self.changes += 1
        self._since = 0
        return gear

    # -- what a gear is worth -----------------------------------------------------------------------------------------

    def worth(self, gear: str, rows: int) -> float:
        """Speed-up over passes of one token a row: as measured for so many rows, else as theory says, times how right
        theory was for this gear where it was measured.
        """
        bucket = bucket_of(rows)
        here = self._experience(bucket, gear)
        if here.known:
            return here.lately.worth(self._expected)
        promised = self._promised(gear, rows)
        known = [b for (b, g), experience in self._known.items() if g == gear and experience.known]
        if not known:
            return promised
        nearest = min(known, key=lambda b: (abs(b - bucket), b))
        there = self._promised(gear, 1 << nearest)
        measured = self._known[nearest, gear].lately.worth(self._expected)
        return promised * measured / there if there > 0 else promised

    def _promised(self, gear: str, rows: int) -> float:
        return self._promise(gear, rows) * self._unit(rows) / rows

    def _others(self) -> list[str]:
        return [gear for gear in self.allowed if gear != self.gear]

    def _better(self, bucket: int, rows: int) -> str | None:
        """A gear that promises clearly more than the present one. One that has failed without being measured has to
        wait for its next trial.
        """
        if 0.5 <= self._experience(bucket, self.gear).lately.rounds < FEW_ROUNDS:
            return None
        here = self.worth(self.gear, rows)
        best, best_worth = None, 0.0
        for gear in self._others():
            worth, experience = self.worth(gear, rows), self._experience(bucket, gear)
            if not experience.known and experience.failures:
                continue
            if worth > _margin(gear, experience.known) * here and worth > best_worth:
                best, best_worth = gear, worth
        return best

    # -- trials -------------------------------------------------------------------------------------------------------

    def _due(self, bucket: int, r: Round) -> str | None:
        """A gear whose trial costs little beside the time since it was last seen."""
        here = self.worth(self.gear, r.rows)
        rounds = max(TRIAL_ROUNDS, -(-TRIAL_ROWS // r.rows)) + SETTLING_ROUNDS
        for gear in self._others():
            experience = self._experience(bucket, gear)
            least = LEAST_LOSS if experience.known or gear == "ar" else UNTRIED_LOSS
            worse = max(least, 1 - self.worth(gear, r.rows) / here)
            cost = max(experience.loss, rounds * r.seconds * worse) + (r.backlog if self.gear == "ar" else 0.0)
            age = self._time[bucket] - experience.seen
            if TRIAL_SHARE * age >= cost * 2 ** min(experience.failures, MOST_FAILURES):
                return gear
        return None

    def _try(self, gear: str, bucket: int) -> str:
        self._trial = _Trial(self.gear, bucket)
        self.trials += 1
        lately = self._experience(bucket, gear).lately
        if lately.rounds > 1.0:  # what it says now counts, what it said long ago hardly
            lately.scale(1.0 / lately.rounds)
        return self._change(gear)

    def _go_on_trying(self, trial: _Trial, r: Round, bucket: int) -> str | None:
        """A round of a trial; once enough was seen, whether the gear is worth staying in."""
        if bucket != trial.bucket:
            if not trial.favoured:
                return self._end_trial(trial, judged=False)
            self._trial = None
            return None
        trial.whole.add(r, self._unit(r.rows))
        trial.seconds += r.seconds
        if self._since <= SETTLING_ROUNDS:
            return None
        if not r.ready:
            trial.waited += 1
            return self._end_trial(trial) if trial.waited >= PATIENCE_ROUNDS else None
        self._add(bucket, r)
        trial.rounds += 1
        trial.rows += r.rows
        if trial.rounds < TRIAL_ROUNDS or trial.rows < TRIAL_ROWS or (trial.favoured and self._since % CHECK_ROUNDS):
            return None
        here, home = self.worth(self.gear, r.rows), self.worth(trial.home, r.rows)
        if home > MARGIN * here or (not trial.favoured and here < _margin(self.gear) * home):
            return self._end_trial(trial)
        trial.favoured = True
        if trial.rounds >= PROVEN_ROUNDS:
            experience = self._experience(bucket, self.gear)
            experience.failures, experience.loss, self._trial = 0, 0.0, None
        return None

    def _end_trial(self, trial: _Trial, *, judged: bool = True) -> str:
        """Go home, and note what the trial has cost."""
        self._trial = None
        experience = self._experience(trial.bucket, self.gear)
        experience.seen = self._time[trial.bucket]
        if judged:
            home = self.worth(trial.home, 1 << trial.bucket)
            share = trial.whole.worth(self._expected) / home if home > 0 else 0.0
            experience.loss = max(0.0, trial.seconds * (1 - share))
            experience.failures += 1
        return self._change(trial.home)

    # -- what to tell -------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """The present gear, and the speed-up of each over passes of one token, by number of rows, as valued now."""
        found: dict[str, dict[str, float]] = {}
        for (bucket, gear), experience in sorted(self._known.items()):
            if experience.known:
                found.setdefault(bucket_name(bucket), {})[gear] = experience.lately.worth(self._expected)
        return {"gear": self.gear, "changes": self.changes, "trials": self.trials, "speedup": found}
