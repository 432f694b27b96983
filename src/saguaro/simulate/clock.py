"""Algorithm 1 on a virtual clock: AR, SD and SSD round by round, with the engine's own decisions and given costs.

What happens in a round comes from a `Pair`; what is prepared for, found, waited for and answered is decided by the
functions of `algorithm`: fan-out policies, the speculation cache, verification, and the choice over all rows of what to
verify next. Only the seconds are made up. Settings have the words of `EngineConfig`. A run depends on its arguments
and its seed alone. Must not know: real clocks, engines. Tests: tests/simulate/test_clock.py, test_agreement.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from saguaro.algorithm.agreement import verify_shared_noise
from saguaro.algorithm.cache import SpeculationCache, Tag
from saguaro.algorithm.choosing_fallback import Choice, Way, choose, deepening, worth_of_a_hit
from saguaro.algorithm.fan_out import open_fan_out
from saguaro.algorithm.fan_out.base import FanOutPolicy
from saguaro.algorithm.terms import Outcome, Proposal
from saguaro.errors import ConfigError
from saguaro.registry import unknown
from saguaro.simulate.costs import Costs
from saguaro.simulate.drafting import ASK, HANDOVERS, PUSH, DraftClock
from saguaro.simulate.pairs import DRAFTED, Drawn, Pair
from saguaro.theory.acceptance import expected_by_depth
from saguaro.theory.branches import hit_rate

MODES = ("ar", "sd", "ssd")
FALLBACKS = ("none", "random", "ngram", "own_row", "neural", "adaptive")
LEARNING = 20.0
"""Rounds that the first guess of the long-run rate counts as."""


@dataclass(frozen=True)
class Requests:
    """Requests that follow one another in every row: prompts are filled in beside rows that decode, in pieces."""

    prompt: int
    output: int
    chunk: int = 128


@dataclass(frozen=True)
class Setting:
    """How to decode.

    Args:
        mode: "ar", "sd" or "ssd".
        lookahead, budget, fan_out, fallback: as `EngineConfig` has them; a fan-out may also be a policy itself.
        handover: "push" (DESIGN D3) or "ask" (the paper: whole proposals, and a draft that answers when it is done).
        batch: rows.
        requests: None decodes without end.
    """

    mode: str
    lookahead: int = 0
    budget: int = 0
    fan_out: str | tuple[int, ...] | FanOutPolicy = "geometric"
    fallback: str = "neural"
    handover: str = PUSH
    batch: int = 1
    requests: Requests | None = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("mode", self.mode, MODES), ("fallback", self.fallback, FALLBACKS), ("handover", self.handover, HANDOVERS),
        ):  # fmt: skip
            if value not in known:
                raise unknown(name, value, known)
        if self.batch < 1 or self.lookahead < 0 or self.budget < 0:
            raise ConfigError("a batch has 1 row or more, and lookahead and budget are 0 or more.")
        if self.mode != "ar" and self.lookahead < 1:
            raise ConfigError(f"{self.mode} needs a lookahead of 1 or more.")


@dataclass(frozen=True)
class Simulated:
    """What a run gave. Rates count decoded tokens of all rows; `hit_rate`s are None where nothing was looked up."""

    rounds: int
    tokens: int
    seconds: float
    hits: int
    looked_up: int
    after_hit: float | None
    after_miss: float | None
    depth: float
    accepted: int
    proposed: int
    verify_seconds: float
    waited_seconds: float
    draft_busy: float
    batch: int

    @property
    def tokens_per_second(self) -> float:
        """Of all rows together."""
        return self.tokens / self.seconds

    @property
    def hit_rate(self) -> float | None:
        """Hits over outcomes that were looked up."""
        return self.hits / self.looked_up if self.looked_up else None

    @property
    def round_seconds(self) -> float:
        """Mean time of a round."""
        return self.seconds / self.rounds

    @property
    def tokens_a_round(self) -> float:
        """Mean tokens of a row and round."""
        return self.tokens / (self.rounds * self.batch)


def simulate(setting: Setting, costs: Costs, pair: Pair, *, rounds: int = 2000, seed: int = 0) -> Simulated:
    """Run so many rounds.

    Raises:
        ConfigError: when the pair has no law for what the setting proposes.
    """
    run = _Run(setting, costs, pair, seed)
    for number in range(rounds):
        run.round(number)
    return run.result(rounds)


@dataclass
class _Row:
    """One row: where its proposal comes from, and its request's progress."""

    index: int
    source: str = "none"
    depth: int = 0
    cache: SpeculationCache = field(default_factory=SpeculationCache)
    prompt_left: int = 0
    output_left: int = 0
    drawn: Drawn = field(default_factory=lambda: Drawn((), (), []))
    outcome: Outcome = field(default_factory=lambda: Outcome(0, 0))


class _Run:
    def __init__(self, setting: Setting, costs: Costs, pair: Pair, seed: int) -> None:
        self._setting, self._costs, self._pair = setting, costs, pair
        self._chance = Random(seed)
        self._ssd = setting.mode == "ssd"
        self._policy = policy_of(setting.fan_out)
        self._clock = DraftClock(costs, setting.handover, setting.lookahead)
        self._rows = [_Row(index) for index in range(setting.batch)]
        self._kept: dict[tuple[str, int], list[Outcome]] = {}
        self._rates: dict[str, float] = {}
        self._told = self._now = 0.0
        self._counts = dict.fromkeys(("tokens", "hits", "looked", "depth", "accepted", "proposed"), 0)
        self._chain = {True: [0, 0], False: [0, 0]}
        self._verified = self._waited = 0.0
        depth = setting.lookahead
        self._verify = [
            costs.verify_while(setting.batch * (d + 1), both=self._ssd) / setting.batch for d in range(depth + 1)
        ]
        self._expected = {name: self._expected_of(name) for name in pair.sources}
        self._start = (setting.batch * self._expected["neural"][-1], self._guess_of_round())
        for row in self._rows:
            self._admit(row)

    def _expected_of(self, source: str) -> list[float]:
        return expected_by_depth(self._pair.evidence(source).rates(self._setting.lookahead))

    def _guess_of_round(self) -> float:
        drafting = self._setting.lookahead * self._costs.draft(self._setting.batch) if self._setting.mode == "sd" else 0
        return self._verify[-1] * self._setting.batch + drafting

    @property
    def _rate(self) -> float:
        tokens, seconds = self._start
        return (LEARNING * tokens + self._counts["tokens"]) / (LEARNING * seconds + self._now)

    def round(self, number: int) -> None:
        """Verify, look up, choose what comes next."""
        decoding = [row for row in self._rows if not row.prompt_left]
        filled = self._fill()
        for row in decoding:
            row.drawn = self._pair.draw(row.index, row.source, row.depth, self._chance)
        if self._ssd:
            branches = sum(self._prepare(row, number) for row in decoding)
            self._clock.begin(self._told, rows=max(1, len(decoding)), branches=branches)
        width = sum(row.depth + 1 for row in decoding) + filled
        verified = self._costs.verify_while(width, both=self._ssd) + self._costs.handling
        end = self._now + verified
        for row in decoding:
            row.outcome = verify_shared_noise(row.drawn.own, row.drawn.sent)
        choice = self._choose(decoding, end)
        for row, way in zip(decoding, choice.ways, strict=True):
            self._commit(row, way)
        self._now = end + choice.wait
        self._verified += verified
        self._waited += choice.wait
        self._tell(choice)

    def _tell(self, choice: Choice) -> None:
        """When the draft knows what is verified next: before the target, if it is what answered."""
        pending = any(way.source == "neural" for way in choice.ways)
        answered = pending or self._setting.handover == ASK
        self._told = self._now - self._costs.link if answered else self._now + self._costs.link
        if self._ssd and pending:
            self._clock.drafted(self._told)

    def _prepare(self, row: _Row, number: int) -> int:
        """Lines 18 and 19: choose the outcomes of the row's round and open their branches; returns their number."""
        key = (row.source, row.depth)
        chosen = self._kept.get(key)
        if chosen is None:
            known = self._pair.evidence(row.source)
            after_hit = row.source in DRAFTED
            budget = self._setting.budget
            counts = self._policy.counts(row.depth, budget, known, after_hit=after_hit)
            chosen = [key for _, key in self._policy.choose(row.drawn.guesses, row.drawn.sent, budget, counts)]
            if self._pair.fixed:
                self._kept[row.source, row.depth] = chosen
        row.cache.expect(Tag(round_number=number))
        row.cache.cover(chosen)
        return len(chosen)

    def _choose(self, decoding: Sequence[_Row], end: float) -> Choice:
        """Lines 23 to 26 for all rows at once."""
        if self._setting.mode == "ar":
            return Choice((Way("none"),) * len(decoding), (), 0.0, 0.0)
        covered = [self._ssd and row.cache.covers(row.outcome) for row in decoding]
        missed = covered.count(False)
        worth = self._worth() if self._setting.fallback == "adaptive" and self._ssd else 0.0
        answers = self._answers(end, missed, worth) if missed else []
        found = self._found(end, worth) if missed < len(decoding) else []
        return choose([found if hit else answers for hit in covered], self._verify, self._rate)

    def _found(self, end: float, worth: float) -> list[Way]:
        """The ways of a row whose outcome has a branch."""
        lookahead, costs = self._setting.lookahead, self._costs
        if self._setting.handover == ASK:
            wait = self._clock.free(end + costs.link) + costs.service + costs.link - end
            wait += costs.reply(lookahead) if costs.reply else 0.0
            return [Way("hit", 0, lookahead, self._expected["hit"][-1], wait)]
        waits = [max(0.0, self._clock.arrives(depth) - end) for depth in range(lookahead + 1)]
        depths = range(1, lookahead + 1)
        future = worth * self._hit_rate("hit")
        nothing = Way("none", future=worth * self._hit_rate("none"))
        ways = deepening("hit", self._expected["hit"], depths=depths, wait_seconds_by_depth=waits, future=future)
        return [nothing, *ways]

    def _answers(self, end: float, missed: int, worth: float) -> list[Way]:
        """The ways of a row whose outcome has none."""
        setting, costs = self._setting, self._costs
        asked = setting.handover == ASK
        depths = [setting.lookahead] if asked else list(range(1, setting.lookahead + 1))
        kind = "neural" if setting.mode == "sd" else setting.fallback
        # Whoever asks learns of a miss from the draft, when that is free to answer.
        told = self._clock.free(end + costs.link) + costs.service + costs.link - end if asked and self._ssd else 0.0
        ways = [] if asked and kind != "none" else [Way("none", wait=told, future=worth * self._hit_rate("none"))]
        if kind == "random":
            return [Way("random", 0, setting.lookahead, 1.0, told)]
        for name in ("ngram", "own_row"):
            if kind == name or (kind == "adaptive" and name in self._pair.sources):
                future = worth * self._hit_rate(name)
                ways += deepening(
                    name, self._expected[name], depths=depths, wait_seconds_by_depth=[told] * (max(depths) + 1),
                    future=future,
                )  # fmt: skip
        if kind in ("neural", "adaptive"):
            waits = [self._drafted_by(end, missed, depth) - end for depth in range(setting.lookahead + 1)]
            future = worth * self._hit_rate("neural")
            ways += deepening(
                "neural", self._expected["neural"], depths=depths, wait_seconds_by_depth=waits, future=future
            )
        return ways

    def _drafted_by(self, end: float, missed: int, depth: int) -> float:
        if self._ssd:
            reply = self._costs.reply
            return self._clock.answers(end, missed, depth) + (reply(depth) if reply else 0.0)
        return end + depth * self._costs.draft(missed)

    def _hit_rate(self, source: str) -> float:
        if source not in self._rates:
            known = self._pair.evidence(source)
            depth = 0 if source == "none" else self._setting.lookahead
            counts = self._policy.counts(depth, self._setting.budget, known, after_hit=source in DRAFTED)
            self._rates[source] = hit_rate(known, counts)
        return self._rates[source]

    def _worth(self) -> float:
        """Tokens that a hit in the next round is worth, for the choice of a fallback."""
        lost = self._rate * self._verify[-1]
        return worth_of_a_hit(
            value_hit=self._expected["hit"][-1] - lost,
            value_miss=1.0 - self._rate * self._verify[0],
            after_hit=self._hit_rate("hit"),
            after_miss=self._hit_rate("none"),
        )

    def _commit(self, row: _Row, way: Way) -> None:
        """Count the round and set the row's next proposal."""
        counts = self._counts
        given = row.outcome.accepted + 1
        counts["tokens"] += min(given, row.output_left) if self._setting.requests else given
        if self._setting.mode != "ar":
            counts["accepted"] += row.outcome.accepted
            counts["proposed"] += row.depth
        if self._ssd:
            if way.source == "hit":
                row.cache.write(row.outcome, Proposal((0,) * way.depth))
            hit = row.cache.look_up(row.outcome) is not None
            counts["hits"] += hit
            counts["looked"] += 1
            counts["depth"] += way.depth if hit else 0
            chain = self._chain[row.source in DRAFTED]
            chain[0] += hit
            chain[1] += 1
        row.source, row.depth = way.source, way.depth
        if row.output_left:
            row.output_left = max(0, row.output_left - given)
            if not row.output_left:
                self._admit(row)

    def _admit(self, row: _Row) -> None:
        requests = self._setting.requests
        row.source, row.depth = "none", 0
        if requests is not None:
            row.prompt_left, row.output_left = requests.prompt, requests.output

    def _fill(self) -> int:
        """Tokens of prompts in this pass: one piece, of the row that has waited longest."""
        requests = self._setting.requests
        waiting = [row for row in self._rows if row.prompt_left]
        if requests is None or not waiting:
            return 0
        piece = min(requests.chunk, waiting[0].prompt_left)
        waiting[0].prompt_left -= piece
        return piece

    def result(self, rounds: int) -> Simulated:
        """What was counted."""
        counts = self._counts
        after = {kind: hits / tried if tried else None for kind, (hits, tried) in self._chain.items()}
        return Simulated(
            rounds, counts["tokens"], self._now, counts["hits"], counts["looked"], after[True], after[False],
            counts["depth"] / max(1, counts["hits"]), counts["accepted"], counts["proposed"], self._verified,
            self._waited, self._clock.busy, self._setting.batch,
        )  # fmt: skip


def policy_of(spec: str | tuple[int, ...] | FanOutPolicy) -> FanOutPolicy:
    """A policy as it is, or by its name or counts."""
    return spec if isinstance(spec, FanOutPolicy) else open_fan_out(spec)
