"""Running estimates on the target's side: what the waiting rule and the policies decide by (DESIGN D3, D8).

Times are seconds. Must not know: channels, models, requests. Tests: tests/engine/test_metrics.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from saguaro.algorithm.choosing_fallback import Kind
from saguaro.algorithm.fallbacks import ALONE, ELSEWHERE, MAJORITY, UNANIMOUS
from saguaro.engine.answers import Answers
from saguaro.theory.evidence import ASSUMED_ACCEPTANCE, ASSUMED_HIT_RATE
from saguaro.theory.step_times import PassTimes

PRIOR_WEIGHT = 8.0
UNSURE_WEIGHT, UNSURE_ACCEPTANCE = 2.0, 0.6
DECAY = 0.98
UNKNOWN_VERIFY = 0.05
FORGETTING = 0.002
HOPELESS_PROPOSALS, HOPELESS_SHARE = 40, 0.02
DRAFTED: Kind = ("hit", 0)
BY_DRAFT = ("hit", "neural", "none")
"""Sources whose acceptance is the draft's; a proposal of nothing says nothing of others."""
OTHERS_WEIGHT = 4.0
UNKNOWN_SOURCE = (0.3, 0.6)
PRIORS: dict[Kind, tuple[float, float]] = {
    ("random", 0): (0.0, 0.0),
    ("ngram", 1): (0.2, 0.5),
    ("ngram", 2): (0.35, 0.75),
    ("ngram", 3): (0.6, 0.8),
    ("ngram", 4): (0.8, 0.9),
    ("own_row", ALONE): (0.13, 0.65),
    ("own_row", MAJORITY): (0.25, 0.8),
    ("own_row", UNANIMOUS): (0.5, 0.75),
    ("own_row", ELSEWHERE): (0.35, 0.6),
}
"""What is assumed of tokens that were not drafted for their place until some were verified: acceptance of the
first, and of later ones given those before; `ngram` by matched tokens. As seen on 461 misses of the Qwen pair.
"""
BESIDE_SECONDS = 1.6
"""A step with a piece of a prompt may take so many times the usual one."""
BESIDE_FIRST, BESIDE_LEAST = 16, 4


class Pace:
    """How many tokens of a prompt run beside rows that decode, so that a step takes less than twice its usual time.

    The number follows what the steps took: what a token costs beside a decoding row depends on how much of the step is
    reading weights, which further tokens do not read again. `fixed` switches that off.
    """

    def __init__(self, chunk: int, *, fixed: int | None = None) -> None:
        self._chunk = chunk
        self._fixed = fixed
        self._tokens = float(min(chunk, BESIDE_FIRST))
        self._usual = 0.0

    @property
    def tokens(self) -> int:
        """Prompt tokens beside decoding rows in the next step."""
        return int(self._tokens) if self._fixed is None else self._fixed

    def took(self, filling: int, decoding: int, seconds: float) -> None:
        """A step ran `filling` prompt tokens and `decoding` others."""
        if not decoding:
            return
        if not filling:
            self._usual += (seconds - self._usual) * (0.2 if self._usual else 1.0)
        elif self._usual and filling >= self.tokens:
            wanted = self._tokens * BESIDE_SECONDS * self._usual / seconds
            self._tokens = min(max(wanted, 0.7 * self._tokens, BESIDE_LEAST), 1.2 * self._tokens, self._chunk)


class Acceptance:
    """Acceptance by position, given that all before it were accepted; what is seen counts less and less.

    `start` are the rates of the first positions where something is known of them.
    """

    def __init__(self, positions: int, first: float, later: float, weight: float, start: Sequence[float] = ()) -> None:
        rates = [first, *[later] * (positions - 1)]
        rates[: len(start)] = start[:positions]
        self._prior = (weight, weight * rates[0])
        self._tried = [weight] * positions
        self._kept = [weight * rate for rate in rates]

    def verified(self, proposed: int, accepted: int) -> None:
        """One row's outcome: `accepted` of `proposed` tokens; positions after the first rejection say nothing."""
        for position in range(min(proposed, accepted + 1, len(self._tried))):
            self._tried[position] = self._tried[position] * DECAY + 1
            self._kept[position] = self._kept[position] * DECAY + (position < accepted)

    def unsure(self) -> None:
        """What is known is old, so new rounds count more and hope is fresh."""
        for position, (kept, tried) in enumerate(zip(self._kept, self._tried, strict=True)):
            self._kept[position] = UNSURE_WEIGHT * max(UNSURE_ACCEPTANCE, kept / tried)
            self._tried[position] = UNSURE_WEIGHT

    def forget(self) -> None:
        """What was given up is tried again by and by: the text may have become easier."""
        self._tried[0] += FORGETTING * (self._prior[0] - self._tried[0])
        self._kept[0] += FORGETTING * (self._prior[1] - self._kept[0])

    def rates(self, lookahead: int) -> list[float]:
        """Probability that position j is accepted given that all before it were, j = 0 ... lookahead - 1."""
        return [self._kept[j] / self._tried[j] for j in range(min(lookahead, len(self._tried)))]


class Estimates:
    """Acceptance by position and source, hit rate, time of a verification by rows, and tokens a second in the long run.

    `beside` says whether the draft works while the target verifies: the two may share a memory, so that times are kept
    apart. `start` is the acceptance of the first positions where something is known of it. `answers` holds what is
    known of answers to misses.
    """

    def __init__(self, max_lookahead: int, start: Sequence[float] = ()) -> None:
        self._positions = max_lookahead
        self._draft = Acceptance(max_lookahead, ASSUMED_ACCEPTANCE, ASSUMED_ACCEPTANCE, PRIOR_WEIGHT, start)
        self._others: dict[Kind, Acceptance] = {}
        self.answers = Answers()
        self._looked = PRIOR_WEIGHT
        self._hit = PRIOR_WEIGHT * ASSUMED_HIT_RATE
        self.beside = False
        self.times = {False: PassTimes(), True: PassTimes()}
        self.proposals = 0
        self.first_accepted = 0
        self._tokens = self._seconds = self._rounds = self._rows = 0.0

    def looked_up(self, hit: bool) -> None:
        """An outcome was looked up in the speculation cache."""
        self._looked = self._looked * DECAY + 1
        self._hit = self._hit * DECAY + hit

    @property
    def hit_rate(self) -> float:
        """Share of the outcomes that are in the cache."""
        return self._hit / self._looked

    def unsure(self) -> None:
        """The draft was idle: what is known of its acceptance is old."""
        self._draft.unsure()

    def verified(self, proposed: int, accepted: int, kind: Kind = DRAFTED, *, tokens: int | None = None) -> None:
        """One row's outcome, of a proposal of the draft (hit or neural) or of another source; each learns alone.

        `tokens` of the round, where siblings of a chain gave some that are not of the chain.
        """
        self.answers.verified(kind[0], accepted + 1 if tokens is None else tokens)
        if proposed and kind[0] not in BY_DRAFT:
            self._of(kind).verified(proposed, accepted)
        if not proposed or kind[0] not in BY_DRAFT:
            self._draft.forget()
            return
        self.proposals += 1
        self.first_accepted += accepted > 0
        self._draft.verified(proposed, accepted)

    def acceptance(self, lookahead: int, kind: Kind = DRAFTED) -> list[float]:
        """Probability that position j is accepted given that all before it were, j = 0 ... lookahead - 1."""
        return (self._draft if kind[0] in BY_DRAFT else self._of(kind)).rates(lookahead)

    def _of(self, kind: Kind) -> Acceptance:
        if kind not in self._others:
            self._others[kind] = Acceptance(self._positions, *PRIORS.get(kind, UNKNOWN_SOURCE), OTHERS_WEIGHT)
        return self._others[kind]

    def passed_over(self, kind: Kind) -> None:
        """Tokens of a kind were on offer and not taken."""
        if kind in self._others:
            self._others[kind].forget()

    def by_kind(self, lookahead: int) -> dict[str, list[float]]:
        """Acceptance of the sources that are not the draft, where something was seen."""
        return {f"{source}.{grade}": a.rates(lookahead) for (source, grade), a in sorted(self._others.items())}

    @property
    def hopeless(self) -> bool:
        """Whether even the first token of a proposal is almost never accepted."""
        return self.proposals >= HOPELESS_PROPOSALS and self.first_accepted < HOPELESS_SHARE * self.proposals

    @property
    def verify(self) -> PassTimes:
        """Times of verifications as they are now, with or without the draft at work."""
        return self.times[self.beside]

    def measured(self, times: Mapping[int, float], *, beside: bool) -> None:
        """Times of verifications from a measurement; the other side takes them until it has its own."""
        self.times[beside].measured(times)
        if not self.times[not beside].known():
            self.times[not beside].measured(times)

    def verify_seconds(self, rows: int) -> float:
        """Expected time of a verification of `rows` tokens."""
        return self.verify.seconds(rows) or UNKNOWN_VERIFY

    def round_took(self, tokens: int, seconds: float, rows: int = 1) -> None:
        """A whole round of so many rows, waiting included, gave `tokens` tokens."""
        self._rounds = self._rounds * DECAY + 1
        self._rows = self._rows * DECAY + rows
        self._tokens = self._tokens * DECAY + tokens
        self._seconds = self._seconds * DECAY + seconds

    def rate(self, rows: int | None = None, width: float = 1.0) -> float:
        """Tokens a second in the long run; before any round, that of one token a verification.

        With `rows`, of a batch of so many: when the batch has just grown or shrunk, what was seen is taken to change
        with the rows, and with the time of a verification of `width` tokens a row.
        """
        if self._seconds <= 0:
            return (rows or 1) / self.verify_seconds(round((rows or 1) * width))
        rate, seen = self._tokens / self._seconds, self._rows / self._rounds
        if rows is None or abs(rows - seen) < 0.5:
            return rate
        slower = self.verify_seconds(round(rows * width)) / self.verify_seconds(max(1, round(seen * width)))
        return rate * rows / seen / slower
