"""This engine on a virtual clock: AR, SD and SSD round by round, with the draft of `passes.py` and learnt estimates.

`clock.py` runs Algorithm 1 as the paper has it, with whole steps of all branches and one time for every verification.
Here the draft chooses its rows, each device is slower while the other works, waits are decided by what the target
expects and take what they take, and requests may end (`Pair.left`). What a target decides by (times, acceptance,
tokens a second) is learnt from the rounds, as in the engine. Must not know: real clocks, engines.
Tests: tests/simulate/test_engine_run.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from saguaro.algorithm.agreement import verify_shared_noise
from saguaro.algorithm.choosing_fallback import Choice, Way, choose, deepening
from saguaro.algorithm.terms import Outcome
from saguaro.errors import ConfigError
from saguaro.simulate.clock import LEARNING, Setting, Simulated, policy_of
from saguaro.simulate.costs import Costs
from saguaro.simulate.drafting import PUSH
from saguaro.simulate.pairs import DRAFTED, Drawn, Pair
from saguaro.simulate.passes import News, PassingDraft, Round
from saguaro.theory.acceptance import expected_by_depth
from saguaro.theory.evidence import Evidence, RunningEvidence
from saguaro.theory.fit import RunningAcceptance
from saguaro.theory.step_times import PassTimes

ANSWERS = ("none", "neural")
"""Fallbacks that can be simulated so; SD has no other than `neural`."""


def simulate_engine(setting: Setting, costs: Costs, pair: Pair, *, rounds: int = 2000, seed: int = 0) -> Simulated:
    """Run so many rounds.

    A prompt's round, in which a request gets its first token, counts as a round of the clock alone: its token is left
    out, and so are its seconds where no other row decodes.

    Raises:
        ConfigError: for a setting that this does not simulate: another fallback, the paper's hand-over, or requests
            with prompts of a length (`Setting.requests`).
    """
    if setting.handover != PUSH or setting.requests is not None:
        raise ConfigError("the engine's own run has a push cache, and no requests with prompts of a given length.")
    if setting.mode == "ssd" and setting.fallback not in ANSWERS:
        raise ConfigError(f"the engine's own run answers a miss by {' or '.join(ANSWERS)}, not by {setting.fallback}.")
    run = _Run(setting, costs, pair, seed)
    for _ in range(rounds):
        run.round()
    return run.result()


@dataclass
class _Row:
    """One row: the round under verification, whether it is a prompt's, what the cache has for its outcome, and how many
    tokens may follow (below 0: the request has ended).
    """

    index: int
    source: str = "none"
    depth: int = 0
    first: bool = True
    cached: int = 0
    limit: int = 0
    drawn: Drawn = field(default_factory=lambda: Drawn((), (), []))
    outcome: Outcome = field(default_factory=lambda: Outcome(0, 0))


class _Run:
    def __init__(self, setting: Setting, costs: Costs, pair: Pair, seed: int) -> None:
        self._setting, self._costs, self._pair = setting, costs, pair
        self._chance, self._hinted = Random(seed), Random(seed)
        self._ssd, self._drafts = setting.mode == "ssd", setting.mode != "ar"
        self._policy = policy_of(setting.fan_out)
        self._draft = PassingDraft(
            costs, self._policy, budget=setting.budget, lookahead=setting.lookahead, rows=setting.batch,
            branching=self._ssd, hint=self._hint,
        )  # fmt: skip
        widest = setting.batch * (setting.lookahead + 1)
        self._times = PassTimes()
        self._times.measured({n: costs.verify_while(n, both=self._ssd) for n in range(1, widest + 1)})
        known = pair.evidence("hit" if self._drafts else "none")
        self._acceptance = RunningAcceptance(known.rate, by_position=known.acceptance)
        first = expected_by_depth(known.rates(setting.lookahead))[-1] if self._drafts else 1.0
        self._start = (setting.batch * first, self._times.seconds(widest))
        self._counts = dict.fromkeys(("rounds", "tokens", "hits", "looked", "depth", "accepted", "proposed"), 0)
        self._chain = {True: [0, 0], False: [0, 0]}
        self._now = self._seconds = self._verified = self._waited = self._others = 0.0
        self._known = RunningEvidence()
        self._fan_outs: dict[tuple[bool, int, Evidence], tuple[int, ...]] = {}
        self._rows = [_Row(index) for index in range(setting.batch)]
        for row in self._rows:
            self._begin(row)

    @property
    def _rate(self) -> float:
        tokens, seconds = self._start
        return (LEARNING * tokens + self._counts["tokens"]) / (LEARNING * seconds + self._seconds)

    def _hint(self) -> tuple[int, int]:
        """What a text suggests at some place of it."""
        hints = self._pair.hints
        return hints[self._hinted.randrange(len(hints))] if hints else (0, 0)

    def _begin(self, row: _Row) -> None:
        """A request begins: its prompt is verified, and the draft has branches for its first token."""
        row.source, row.depth, row.first = "none", 0, True
        row.drawn = self._pair.draw(row.index, "none", 0, self._chance)
        self._draft.begin(row.index, self._round_of(row), self._now)

    def _round_of(self, row: _Row) -> Round:
        """What the draft is to know of the round that was drawn last."""
        onward = self._pair.onward(row.index, row.depth, self._setting.lookahead) if self._ssd else ()
        return Round(row.drawn.sent, row.drawn.guesses, onward, self._fan_out(row) if self._ssd else ())

    def _fan_out(self, row: _Row) -> tuple[int, ...]:
        after_hit = row.first or row.source == "hit"
        known = self._known.of(after_hit=after_hit)
        key = (after_hit, row.depth, known)
        if key not in self._fan_outs:
            counts = self._policy.counts(row.depth, self._setting.budget, known, after_hit=after_hit)
            self._fan_outs[key] = counts
        return self._fan_outs[key]

    def round(self) -> None:
        """Verify, look up, choose what comes next."""
        began, rows = self._now, self._rows
        width = sum(row.depth + 1 for row in rows)
        end = self._draft.verify(began, width) if self._drafts else began + self._costs.verify(width)
        decoding = [row for row in rows if not row.first]
        if decoding:
            self._counts["rounds"] += 1
            self._verified += end - began
            self._seconds += end - began
        if len(decoding) == len(rows):
            self._times.took(width, end - began)
        for row in rows:
            row.outcome = verify_shared_noise(row.drawn.own, row.drawn.sent)
            self._learn(row)
            left = self._pair.left(row.index)
            row.limit = self._setting.lookahead if left is None else min(self._setting.lookahead, left - 1)
        going_on = [row for row in rows if row.limit >= 0]
        now = self._go_on(going_on, end)
        self._now = now + self._costs.handling
        if going_on:  # the first token is there before the next proposal is, which therefore counts
            self._seconds += now - end + self._costs.handling
        for row in rows:
            if row.limit < 0:
                self._begin(row)
        self._others = sum(row.depth + 1 for row in rows) / len(rows) * (len(rows) - 1)

    def _learn(self, row: _Row) -> None:
        """Count a verified proposal; a prompt's round has none. The draft learns from all that it prepares for."""
        accepted, bonus = row.outcome
        if self._ssd:
            self._known.update(
                after_hit=row.first or row.source == "hit", sent=row.drawn.sent, accepted=accepted, bonus=bonus,
                guesses=row.drawn.guesses[accepted].tokens,
            )  # fmt: skip
        if row.first:
            return
        self._counts["tokens"] += accepted + 1
        if self._drafts:
            self._counts["accepted"] += accepted
            self._counts["proposed"] += row.depth
            if row.depth:
                self._acceptance.update(accepted, row.depth)

    def _go_on(self, rows: list[_Row], end: float) -> float:
        """Choose the next proposal of each row and have it made; returns when all are there."""
        choice = self._choose(rows, end)
        pending = []
        for row, way in zip(rows, choice.ways, strict=True):
            waits = way.source == "neural" or way.depth > row.cached
            self._look_up(row, way)
            row.source, row.depth, row.first = way.source, way.depth, False
            row.drawn = self._pair.draw(row.index, row.source, row.depth, self._chance)
            if self._drafts:
                self._draft.tell(row.index, News(end + self._costs.link, row.outcome, waits, self._round_of(row)))
            if waits:
                pending.append(row.index)
        if not pending:
            return end
        there = self._draft.serve(end, pending) + self._costs.link
        for index in pending:
            self._draft.took(index, there + self._costs.link)
        self._waited += there - end
        return there

    def _look_up(self, row: _Row, way: Way) -> None:
        """Count a look-up of SSD, by what the round verified."""
        if not self._ssd:
            return
        hit = way.source == "hit"
        self._counts["hits"] += hit
        self._counts["looked"] += 1
        self._counts["depth"] += way.depth if hit else 0
        chain = self._chain[row.source in DRAFTED]
        chain[0] += hit
        chain[1] += 1

    def _choose(self, rows: list[_Row], end: float) -> Choice:
        """Lines 23 to 26 for all rows at once, by what the target expects."""
        if not self._drafts:
            return Choice((Way("none"),) * len(rows), (), 0.0, 0.0)
        for row in rows:
            row.cached = min(self._draft.cached(row.index, row.outcome), row.limit) if self._ssd else 0
        asking = sum(self._may_wait(row) and row.limit > row.cached for row in rows)
        others = round(self._others)
        verify = [self._times.seconds(others + depth + 1) for depth in range(self._setting.lookahead + 1)]
        return choose([self._ways(row, end, asking) for row in rows], verify, self._rate)

    def _may_wait(self, row: _Row) -> bool:
        return row.cached > 0 or not self._ssd or self._setting.fallback == "neural"

    def _ways(self, row: _Row, end: float, asking: int) -> list[Way]:
        """A covered row takes what is there or waits for more; another one asks for a proposal, or does without."""
        if not row.cached and (not self._may_wait(row) or not row.limit):
            return [Way("none")]
        expected = expected_by_depth(self._acceptance.per_position(row.limit))
        waits = self._draft.waits(end, row.cached, row.limit, asking=asking)
        if row.cached:
            return deepening("hit", expected, depths=range(row.limit + 1), wait_seconds_by_depth=waits)
        asked = deepening("neural", expected, depths=range(1, row.limit + 1), wait_seconds_by_depth=waits)
        return [Way("none"), *asked]

    def result(self) -> Simulated:
        """What was counted."""
        counts = self._counts
        after = {kind: hits / tried if tried else None for kind, (hits, tried) in self._chain.items()}
        return Simulated(
            counts["rounds"], counts["tokens"], self._seconds, counts["hits"], counts["looked"], after[True],
            after[False], counts["depth"] / max(1, counts["hits"]), counts["accepted"], counts["proposed"],
            self._verified, self._waited, self._draft.busy, self._setting.batch,
        )  # fmt: skip
