"""The engine's draft on a virtual clock: what each of its passes runs, and how both devices slow one another.

`drafting.py` has the paper's draft, which extends all branches in step. Here the rows of a pass are chosen by the
functions that choose them in the engine (`algorithm/odds.py`), by times that are learnt as there; news is read between
two passes, and a pass of which no row matters any more is given up. Each device has two paces, alone and while the
other works too, so that a verification of which a share is done beside a working draft takes that share of its time
together, and the rest of its time alone. Must not know: laws, what the target chooses.
Tests: tests/simulate/test_passes.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.algorithm.hints import LATEST, HintOdds
from saguaro.algorithm.odds import Guesses, branches_worth_running
from saguaro.algorithm.terms import Outcome
from saguaro.algorithm.waiting import expected_waits
from saguaro.simulate.costs import Costs
from saguaro.theory.step_times import PassTimes, time_for


class Round(NamedTuple):
    """What the draft is to know of a round: the tokens under verification, its guesses, how sure it is of what follows
    each outcome (`Pair.onward`), and F_0 ... F_d.
    """

    sent: tuple[int, ...] = ()
    guesses: Sequence[Guesses] = ()
    onward: Sequence[Sequence[float]] = ()
    counts: tuple[int, ...] = ()


class News(NamedTuple):
    """An outcome on its way to the draft, which hears of it at `told`, and the round that it leads to. `pending`: the
    target waits for the proposal of that round.
    """

    told: float
    outcome: Outcome
    pending: bool
    next: Round


@dataclass
class Branch:
    """The speculation for an outcome: the odds of that outcome, what its next token is worth, how sure the draft is of
    each of its tokens, and how many are drawn.
    """

    odds: float
    worth: float
    onward: Sequence[float]
    depth: int = 0


@dataclass
class _Row:
    """A row as the draft has it. Of the bonus token and the `have` tokens of the proposal `ran` have keys and values,
    and candidates after them; `behind` committed tokens before them have none.
    """

    round: Round = field(default_factory=Round)
    ran: int = 0
    behind: int = 0
    have: int = 0
    waiting: bool = False
    taken: float = math.inf
    predicted: int = -1
    branches: dict[Outcome, Branch] = field(default_factory=dict)
    gave_way: dict[Outcome, int] = field(default_factory=dict)
    news: News | None = None

    def due(self, *, branching: bool) -> int:
        """Tokens of the tail that the next pass runs: a proposal's last one only when what follows it is needed."""
        asked = self.waiting and self.have < len(self.round.sent)
        return self.behind + 1 + self.have - self.ran if branching or asked or not self.ran else 0

    @property
    def all_accepted(self) -> float:
        """The draft's probability that the whole proposal is accepted, as far as it has come."""
        pairs = zip(self.round.guesses[: self.ran], self.round.sent[: self.have], strict=False)
        return math.prod(guesses.of(token) for guesses, token in pairs)

    def outdated(self, key: Outcome | None, now: float) -> bool:
        """Whether news that has arrived makes a branch (its key), or the tail (None), pointless."""
        if self.news is None or self.news.told > now:
            return False
        if key is not None:
            return key != self.news.outcome
        return not self.behind and self.ran > self.news.outcome.accepted


@dataclass
class _Flight:
    """A pass: the tails and branches in it, each with how many tokens it gives beyond one, its rows, when it began, and
    the share of it that is left.
    """

    tails: list[tuple[_Row, int]]
    branches: list[tuple[_Row, Outcome, Branch, int]]
    rows: int
    began: float
    left: float = 1.0


class _Hints:
    """What the rows' texts suggest: places of recorded texts, drawn anew for each token."""

    def __init__(self, draw: Callable[[], tuple[int, int]]) -> None:
        self._draw = draw
        self._odds = HintOdds()
        self.tokens_a_pass = 1.0

    def more(self, most: int, worth: float, rows: int, seconds: Callable[[int], float]) -> tuple[int, int]:
        """Rows that hints add to a pass of `rows`, and the tokens that they give; `most` may follow the next one."""
        size, right = self._draw() if most > 0 else (0, 0)
        if not size:
            return 0, 0
        count = min(most, self._odds.worthwhile(size, worth, rows, seconds))
        gained = min(right, count)
        for place in range(min(gained + 1, max(1, count))):
            self._odds.saw(size + place, right=place < right)
        return count, gained

    def gave(self, tokens: int) -> None:
        """A pass gave so many tokens to a tail that the target waits for."""
        self.tokens_a_pass += LATEST * (tokens - self.tokens_a_pass)


class PassingDraft:
    """The draft of all rows, and the time that passes on both devices.

    Args:
        costs: seconds of passes.
        policy: which outcomes are prepared for.
        budget, lookahead: B and K.
        rows: requests.
        branching: SSD; False is a draft that works when it is asked (SD).
        hint: what a text suggests at some place (`algorithm.hints.hint_places`); size 0 is nothing.
    """

    def __init__(
        self,
        costs: Costs,
        policy: FanOutPolicy,
        *,
        budget: int,
        lookahead: int,
        rows: int,
        branching: bool = True,
        hint: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self._costs, self._policy = costs, policy
        self._budget, self._lookahead, self._branching = budget, lookahead, branching
        self._rows = [_Row() for _ in range(rows)]
        self._hints = _Hints(hint)
        self._flight: _Flight | None = None
        self._count = 1
        self._now = 0.0
        self.beside, self.alone = PassTimes(), PassTimes()
        most = rows * (budget + lookahead + 2)
        for times, both in ((self.beside, True), (self.alone, False)):
            times.measured({count: costs.draft_while(count, both=both) for count in range(1, most + 1)})
        self.busy = 0.0
        self.passes = self.rows_run = 0

    # -- what the target does and asks ------------------------------------------------------------------------------

    def verify(self, began: float, rows: int) -> float:
        """The target verifies `rows` tokens from `began` on, while the draft goes on; returns when that is done."""
        self._until(self._now, limit=began)
        paces = (self._costs.verify_while(rows, both=False), self._costs.verify_while(rows, both=True))
        return self._until(began, paces=paces)

    def serve(self, began: float, rows: Collection[int]) -> float:
        """The target waits for the proposals of these rows; returns when the last one is drawn."""
        return self._until(began, awaited=rows)

    def cached(self, row: int, outcome: Outcome) -> int:
        """Tokens in the cache for an outcome of the round under verification."""
        own = self._rows[row]
        branch = own.branches.get(outcome)
        return branch.depth if branch is not None else own.gave_way.get(outcome, 0)

    def waits(self, now: float, cached: int, most: int, *, asking: int) -> list[float]:
        """Seconds until each depth, as the target expects them: by what the draft says of its passes."""
        step = time_for({1: self.alone.seconds(1) / self._hints.tokens_a_pass}, max(1, asking))
        first = step
        if cached and self._flight is not None:
            first = max(0.0, self.beside.seconds(self._count) - (now - self._flight.began))
        return expected_waits(cached, most, first=first, step=step)

    def begin(self, row: int, first: Round, now: float) -> None:
        """A new request in a row, whose prompt the draft has just read but for its last token; the old one is gone."""
        old, self._rows[row] = self._rows[row], _Row(first)
        flight = self._flight
        if flight is None:
            return
        flight.tails = [each for each in flight.tails if each[0] is not old]
        flight.branches = [each for each in flight.branches if each[0] is not old]
        if not flight.tails and not flight.branches:
            self._ended(flight, now)

    def tell(self, row: int, news: News) -> None:
        """Send an outcome."""
        self._rows[row].news = news

    def took(self, row: int, told: float) -> None:
        """Send that the wait for a row is over; the draft hears of it at `told`."""
        self._rows[row].taken = told

    # -- time -------------------------------------------------------------------------------------------------------

    def _until(
        self,
        now: float,
        *,
        paces: tuple[float, float] | None = None,
        awaited: Collection[int] = (),
        limit: float = math.inf,
    ) -> float:
        """Let time pass until a verification (of those `paces`: alone, together), or all that is awaited, is done, or
        up to a limit.
        """
        left = 1.0
        while True:
            self._start(now)
            if now >= limit or (awaited and not any(self._missing(row) for row in awaited)):
                break
            flight = self._flight
            verified = now + left * paces[flight is not None] if paces else math.inf
            pace = self._costs.draft_while(flight.rows, both=paces is not None) if flight is not None else math.inf
            passed = now + flight.left * pace if flight is not None else math.inf
            stop = min(verified, passed, limit, self._next_news(now))
            assert stop < math.inf, "the target waits, and the draft has nothing to do"
            if paces:
                left -= (stop - now) / paces[flight is not None]
            if flight is not None:
                flight.left -= (stop - now) / pace
            now = stop
            if flight is not None and stop == passed:
                self._finish(flight, now)
            if stop == verified:
                break
        self._now = now
        return now

    def _missing(self, row: int) -> bool:
        own = self._rows[row]
        return own.news is not None or own.have < len(own.round.sent)

    def _next_news(self, now: float) -> float:
        """When the draft next hears something that it does not know at `now`; inf when nothing is on its way."""
        coming = [row.news.told for row in self._rows if row.news is not None]
        coming += [row.taken for row in self._rows if row.waiting]
        return min((told for told in coming if told > now), default=math.inf)

    def _useless(self, flight: _Flight, now: float) -> bool:
        tails = all(row.outdated(None, now) for row, _ in flight.tails)
        return tails and all(row.outdated(key, now) for row, key, _, _ in flight.branches)

    def _ended(self, flight: _Flight, now: float) -> None:
        self._flight = None
        self.busy += now - flight.began
        self.passes += 1
        self.rows_run += flight.rows

    # -- passes -----------------------------------------------------------------------------------------------------

    def _start(self, now: float) -> None:
        """Give up a pass that no row needs any more; between two passes read the news, and begin the next one if there
        is anything worth running.
        """
        if self._flight is not None:
            if not self._useless(self._flight, now):
                return
            self._ended(self._flight, now)
        for row in self._rows:
            if row.news is not None and row.news.told <= now:
                _decide(row, row.news)
            if row.waiting and row.taken <= now:
                row.waiting = False
        tails = [(row, row.due(branching=self._branching)) for row in self._rows]
        tails = [(row, due) for row, due in tails if due > 0]
        fixed = sum(due for _, due in tails)
        offered = self._offered() if self._branching else []
        if offered:
            count = branches_worth_running(
                [(branch.odds, branch.worth) for _, _, branch in offered], self.beside.seconds, self.alone.seconds,
                fixed_rows=fixed, fixed_worth=sum(row.all_accepted for row, _ in tails),
            )  # fmt: skip
            offered = offered[:count]
        if tails or offered:
            self._flight = self._flight_of([row for row, _ in tails], offered, fixed + len(offered), now)
            self._count = self._flight.rows

    def _flight_of(
        self, tails: Sequence[_Row], branches: Sequence[tuple[_Row, Outcome, Branch]], rows: int, now: float
    ) -> _Flight:
        """A pass of `rows`, and of the hints that are worth a row more."""
        waited_for = all(row.waiting for row in (*tails, *(row for row, _, _ in branches)))
        times = self.alone if waited_for else self.beside
        flight = _Flight([], [], rows, now)
        for row in tails:
            asked = row.waiting and row.have < len(row.round.sent)
            most = len(row.round.sent) - row.have - 1 if asked else 0
            count, gained = self._hints.more(most, 1.0, flight.rows, times.seconds)
            flight.rows += count
            flight.tails.append((row, gained))
        for row, key, branch in branches:
            most = self._lookahead - branch.depth - 1
            count, gained = self._hints.more(most, branch.worth, flight.rows, times.seconds)
            flight.rows += count
            flight.branches.append((row, key, branch, gained))
        return flight

    def _offered(self) -> list[tuple[_Row, Outcome, Branch]]:
        """Branches that may grow, likeliest first."""
        found: list[tuple[_Row, Outcome, Branch]] = []
        for row in self._rows:
            if row.waiting:
                continue
            self._open(row)
            found += [(row, key, branch) for key, branch in row.branches.items() if branch.depth < self._lookahead]
        return sorted(found, key=lambda each: -each[2].worth)

    def _open(self, row: _Row) -> None:
        """Branches for the outcomes that the candidates known so far predict (Section 4.1)."""
        known = min(row.ran, len(row.round.sent) + 1)
        if known == row.predicted:
            return
        row.predicted = known
        guesses, sent, counts = row.round.guesses[:known], row.round.sent, row.round.counts
        most = self._budget if self._policy.chooses else sum(counts)
        for odds, key in self._policy.choose(guesses, sent, self._budget, counts):
            if key in row.branches:
                continue
            if len(row.branches) >= most:
                last = min(row.branches, key=lambda other: row.branches[other].odds, default=None)
                if last is None or row.branches[last].odds >= odds:
                    continue
                gone = row.branches.pop(last)
                if gone.depth:  # its tokens stay where the target may take them
                    row.gave_way[last] = gone.depth
            row.branches[key] = Branch(odds, odds, row.round.onward[key.accepted])

    def _finish(self, flight: _Flight, now: float) -> None:
        """A pass is done: every branch in it is a token deeper or more, and so is a proposal that is waited for."""
        self._ended(flight, now)
        for row, gained in flight.tails:
            row.ran, row.behind = 1 + row.have + gained, 0
            if row.waiting and row.have < len(row.round.sent):
                row.have += 1 + gained
                self._hints.gave(1 + gained)
        for _, _, branch, gained in flight.branches:
            for _ in range(1 + gained):
                branch.worth *= branch.onward[branch.depth]
                branch.depth += 1
        rows = [*(row for row, _ in flight.tails), *(row for row, _, _, _ in flight.branches)]
        times = self.alone if all(row.waiting for row in rows) else self.beside
        times.took(flight.rows, now - flight.began)


def _decide(row: _Row, news: News) -> None:
    """Apply an outcome: keep what a matching branch prepared, drop the rest."""
    row.behind = max(0, news.outcome.accepted + 1 - row.ran) + (0 if row.ran else row.behind)
    branch = row.branches.get(news.outcome)
    depth = branch.depth if branch is not None else 0
    wanted = len(news.next.sent)
    row.have = min(depth, wanted) if news.pending else wanted
    row.ran = 0 if row.behind else min(depth, min(depth, wanted) + 1)
    row.round, row.waiting, row.taken = news.next, news.pending, math.inf
    row.predicted, row.branches, row.gave_way, row.news = -1, {}, {}, None
