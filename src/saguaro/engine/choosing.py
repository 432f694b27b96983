"""How each row goes on after its outcome: the ways that there are, and the choice among them (DESIGN D3, D9).

The criterion is in `algorithm/choosing_fallback.py`, for the whole batch at once; here it is fed with running
estimates. Where the depth is not to adapt (lockstep, a fixed lookahead) time counts nothing and every source offers all
it has, so that no clock decides anything. Must not know: messages, how a way is carried out.
Tests: tests/engine/test_choosing.py, tests/lossless/.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

from saguaro.algorithm.choosing_fallback import Choice, Way, choose, deepening, try_another
from saguaro.algorithm.suffix_index import Corpus
from saguaro.algorithm.waiting import choose_depth, expected_tokens
from saguaro.drafting.fallbacks import FALLBACKS
from saguaro.drafting.fallbacks.base import Fallback, Missed, Offer
from saguaro.engine.metrics import Estimates
from saguaro.engine.misses import NO_LOOKUP, Lookup
from saguaro.engine.reading import DraftReader
from saguaro.engine.sequence import Proposed, Sequence
from saguaro.transport.base import Entry, Key

NO_WAY = Way("none")
MOST_UNBOOKED = 64


@dataclass(slots=True)
class Open:
    """A row between its outcome and its proposal.

    `limit`: tokens that may be proposed; `verified`: the proposal whose outcome this is, None after a prefill;
    `forced`: the tokens that its grammar makes certain; `ready`: the draft may be waited for; `covered`: its outcome is
    in the cache, `cached` tokens deep; `asked`: the draft was told to answer already (`rejection`); `offers`: what the
    fallback has for it; `way`: what was chosen; `lookup`: why it was a hit or a miss, `found`: there was an entry that
    could be taken.
    """

    sequence: Sequence
    key: Key
    limit: int
    verified: Proposed | None = None
    forced: tuple[int, ...] = ()
    ready: bool = False
    covered: bool = False
    cached: int = 0
    asked: bool = False
    pending: bool = False
    entry: Entry | None = None
    offers: tuple[Offer, ...] = ()
    way: Way = NO_WAY
    lookup: Lookup = NO_LOOKUP
    found: bool = False

    @property
    def available(self) -> int:
        """Tokens that could be proposed without waiting, were they the draft's own or certain."""
        return max(self.cached, len(self.forced))


class Chooser:
    """The ways of all rows of a batch, and the choice."""

    def __init__(self, estimates: Estimates, reader: DraftReader, vocab: int, corpus: Corpus | None) -> None:
        self.estimates = estimates
        self.reader = reader
        self.vocab = vocab
        self.corpus = corpus
        self._hits: list[tuple[str | None, int, float]] = []  # source of the verified proposal, depth taken, wait
        self._trial_rate = 0.0  # tokens a second that the wait of a trial costs; 0 when the last choice was none

    def configure(self, fallback: str, *, fixed: bool, branches: bool, rejection: bool) -> None:
        """Another fallback. `fixed`: the depth does not adapt; `branches`: a hit is possible; `rejection`: proposals
        need laws, and the cache is the draft's.
        """
        if self._hits:  # they are valued as what they were
            self._keep_books()
        self.fallback: Fallback = FALLBACKS.get(fallback)()
        self.fixed, self.branches, self.rejection = fixed, branches, rejection

    def choose(self, opened: Rows[Open], rows: int, others: int) -> float:
        """Set the way of each row; returns the expected seconds of the wait that follows.

        Args:
            opened: rows whose outcome was looked up.
            rows: rows of the batch.
            others: tokens of all rows but one in the next verification, as far as one can know.
        """
        self._trial_rate = 0.0
        if not opened:
            return 0.0
        if rows == 1:
            wait = self._at_once(opened[0])
            if wait is not None:
                return wait
        self._keep_books()
        answers, missed = self.estimates.answers, [not o.covered for o in opened]
        for o in opened:
            if o.ready and o.verified is not None and self.branches and o.limit > 0:
                answers.looked_up(o.verified.source, o.covered)
        asking = sum(self._may_wait(o) and o.limit > o.available for o in opened)
        waits = self._waits(opened, asking, alone=rows == 1)
        ways = [self._ways(o, wait) for o, wait in zip(opened, waits, strict=True)]
        deepest = max(way.depth for each in ways for way in each)
        width = 1 + others / (rows - 1) if rows > 1 else 1.0
        rate = 0.0 if self.fixed else self.estimates.rate(rows, width)
        verify = [0.0 if self.fixed else self.estimates.verify_seconds(others + d + 1) for d in range(deepest + 1)]
        best = choose(ways, verify, rate)
        if self.fallback.chooses and any(missed):
            best = self._try(ways, missed, verify, rate, best, rows)
        if self.branches:
            answers.decided(ways, missed, best, rate)
            if self.fallback.chooses:
                answers.earned(sum(way.expected for way in best.ways))
        for o, offered, way in zip(opened, ways, best.ways, strict=True):
            o.way = way
            for kind in {other.kind for other in offered} - {way.kind}:
                self.estimates.passed_over(kind)
        return best.wait

    def waited(self, expected: float, seconds: float, rows: int) -> None:
        """The wait after a choice took so long; a trial pays for what it really took."""
        if rows > 1:
            self.reader.waited(expected, seconds)
        if self._trial_rate:
            self.estimates.answers.overran(self._trial_rate * max(0.0, seconds - expected))

    def _at_once(self, o: Open) -> float | None:
        """The way of a lone row for which there is only the draft: a hit, or any outcome in SD. Then the choice is how
        deep (`waiting.choose_depth`), and the books of answers are kept when there is time, at the next row with a real
        choice: between two verifications nothing of the machinery for that is in a processor's caches.

        Returns:
            The expected seconds of the wait; None where there is more to choose from.
        """
        if self.rejection or o.forced or o.limit <= 0 or (self.branches and not o.covered):
            return None
        most = o.limit if o.ready else o.cached
        expected = expected_tokens(self.estimates.acceptance(most))
        if self.fixed:
            depth, waits = most, [0.0] * (most + 1)
        else:
            waits = self.reader.waits(o.cached, most) if most > o.cached else [0.0] * (most + 1)
            verify = [self.estimates.verify_seconds(d + 1) for d in range(most + 1)]
            depth = choose_depth(waits, verify, expected, self.estimates.rate(1))
        if not self.branches:
            o.way = Way("neural", 0, depth, expected[depth], waits[depth]) if depth else NO_WAY
            return waits[depth]
        o.way = Way("hit", 0, depth, expected[depth], waits[depth])
        self._hits.append((o.verified.source if o.ready and o.verified is not None else None, depth, waits[depth]))
        if len(self._hits) >= MOST_UNBOOKED:
            self._keep_books()
        return waits[depth]

    def _keep_books(self) -> None:
        """What rows that went on at once have shown; valued as things are now."""
        if not self._hits:
            return
        answers, deepest = self.estimates.answers, max(d for _, d, _ in self._hits)
        rate = 0.0 if self.fixed else self.estimates.rate(1)
        expected = expected_tokens(self.estimates.acceptance(deepest))
        for source, depth, wait in self._hits:
            if source is not None:
                answers.looked_up(source, True)
            seconds = wait + self.estimates.verify_seconds(depth + 1)
            answers.went_on(depth, expected[depth] - rate * seconds)
            if self.fallback.chooses:
                answers.earned(expected[depth])
        self._hits.clear()

    def _try(
        self, ways: Rows[Rows[Way]], missed: Rows[bool], verify: Rows[float], rate: float, best: Choice, rows: int
    ) -> Choice:
        """Now and then something else than the best, so that what is known of it does not grow old."""
        answers = self.estimates.answers
        kinds = {way.kind for each, miss in zip(ways, missed, strict=True) if miss for way in each}
        trial = try_another(ways, verify, rate, best, answers.due(kinds), answers.credit)
        if trial is not None:
            answers.tried(trial)
            self._trial_rate = rate
            return trial.choice
        asked = any(way.source == "neural" for way in best.ways)
        if any(kind[0] == "neural" for kind in kinds):
            answers.crossed(rows, asked=asked)
        return best

    # -- the ways of a row ----------------------------------------------------------------------------------------

    def _may_wait(self, o: Open) -> bool:
        return o.ready and (o.covered or self.fallback.asks_draft)

    def _waits(self, opened: Rows[Open], asking: int, *, alone: bool) -> list[list[float]]:
        """Seconds until each depth, row by row; nothing where the draft is not waited for or time does not count."""
        if self.fixed:
            return [[0.0] * (max(o.limit, 0) + 1) for o in opened]
        known: dict[int, list[float]] = {}
        most = max(0, *(o.limit for o in opened))
        for o in opened:
            if o.available not in known:
                known[o.available] = self.reader.waits(o.available, most, asking=asking, alone=alone)
        return [known[o.available] for o in opened]

    def _ways(self, o: Open, waits: Rows[float]) -> list[Way]:
        if o.covered or o.forced:
            return self._onward(o, waits)
        future = self.estimates.answers.future if self.fallback.chooses and self.branches else _nothing
        found: list[Way] = []
        if o.ready and self.fallback.asks_draft and o.limit > 0:
            expected = expected_tokens(self.estimates.acceptance(o.limit))
            depths = self._depths(1, o.limit)
            found += deepening("neural", expected, depths=depths, wait_seconds_by_depth=waits, future=future("neural"))
        if o.limit > 0:
            o.offers = tuple(self.fallback.offers(self._missed(o)))
        for source, proposal, grade in o.offers:
            expected = expected_tokens(self.estimates.acceptance(proposal.depth, (source, grade)))
            depths = self._depths(1, proposal.depth)
            found += deepening(source, expected, depths=depths, grade=grade, future=future(source))
        return found if self.fixed and found else [Way("none", future=future("none")), *found]

    def _onward(self, o: Open, waits: Rows[float]) -> list[Way]:
        """The ways of a row whose next tokens are in the cache, or certain: as they are, or deeper."""
        most = max(0, o.limit if self._may_wait(o) else o.available)
        # Under rejection a token that was drawn is proposed: leaving it out could depend on its own draw.
        least = min(o.cached, most) if self.rejection else 0
        certain = len(o.forced)
        expected = expected_tokens([*[1.0] * certain, *self.estimates.acceptance(max(most, certain))[certain:]])
        later = "hit" if o.covered else "neural"
        ways: list[Way] = []
        for d in self._depths(least, most):
            source = "hit" if 0 < o.cached >= d else "forced" if d <= certain else later
            ways.append(Way(source, 0, d, expected[d], waits[d] if d > o.available else 0.0))
        return ways

    def _depths(self, least: int, most: int) -> range:
        return range(most if self.fixed else least, most + 1)

    def _missed(self, o: Open) -> Missed:
        """What the fallback may know of a row."""
        s, own, fallback = o.sequence, o.sequence.submission.sampling, self.fallback
        cached: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
        if fallback.reads_cache and not self.rejection:
            cached = self.reader.branches(s.row, s.request, o.key.round)
        if fallback.reads_text:
            s.text.extend(s.tokens[len(s.text) :])
        return Missed(
            length=len(s.tokens),
            seed=own.seed,
            choice=own.choice,
            round=s.round + 1,
            lookahead=o.limit,
            vocab=self.vocab,
            accepted=o.key.accepted,
            bonus=o.key.bonus,
            text=s.text,
            corpus=self.corpus,
            cached=cached,
            rejected=o.verified.rejected(o.key.accepted) if o.verified is not None else (),
        )


def _nothing(source: str) -> float:
    return 0.0
