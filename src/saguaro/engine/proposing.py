"""Between two verifications: from outcomes to the next proposals (Algorithm 1, lines 10, 13 and 23-26).

The look-up happens here, on the target's side (DESIGN D3). Waiting is a choice: on a covered outcome the target waits
for a deeper entry, on an uncovered one it asks the draft, as long as that raises tokens a second (`choosing.py`). A
pending wait ends after three times the expected time (`reading.py`); then the round decodes without a proposal. Where a
grammar makes the next tokens certain, they are a proposal that takes no draft (`forced`), unless what the draft has
goes further. Tests: tests/engine/, tests/lossless/.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence as Rows
from dataclasses import replace
from typing import Any

from saguaro.algorithm.choosing_fallback import Way
from saguaro.algorithm.proposal_tree import ProposalTree
from saguaro.algorithm.suffix_index import Corpus
from saguaro.algorithm.terms import DraftLaw, PointMassLaw
from saguaro.engine.choosing import Chooser, Open
from saguaro.engine.metrics import Estimates
from saguaro.engine.misses import Lookup, answered, look_up
from saguaro.engine.reading import LOCKSTEP_SECONDS, DraftReader
from saguaro.engine.sequence import Proposed, Sequence
from saguaro.engine.settings import Settings, told
from saguaro.engine.trace import Ring
from saguaro.engine.tree_choice import TreeChoice
from saguaro.models.grammar import MOST_FORCED
from saguaro.protocol.messages import FIRST_ENTRY, LAST, Admit, Configure, Decided, Message, Release, Taken
from saguaro.protocol.session import Session
from saguaro.transport.base import Entry, TargetPort

log = logging.getLogger(__name__)


class Proposer:
    """The look-up, the answer to it and the talk with the draft. `corpus` holds outputs of earlier requests."""

    def __init__(
        self,
        estimates: Estimates,
        vocab: int,
        settings: Settings,
        trace: Ring | None = None,
        corpus: Corpus | None = None,
    ) -> None:
        self.trace = trace
        self.estimates = estimates
        self.port: TargetPort | None = None
        self.reader = DraftReader(vocab)
        self.chooser = Chooser(estimates, self.reader, vocab, corpus)
        self.session = Session()
        self.late = 0
        self.untold = 0
        self.warnings: list[str] = []
        self._mean_depth = 0.0
        self.trees = TreeChoice(estimates)
        self.waited = {"depth": 0.0, "pending": 0.0, "handover": 0.0, "rounds": 0.0}
        self.configure(settings)

    # -- the channel ------------------------------------------------------------------------------------------------

    def configure(self, settings: Settings) -> None:
        """New settings; the draft is told."""
        self.settings = settings
        self.reader.lockstep = settings.lockstep
        self.chooser.configure(
            settings.fallback if settings.branches else "neural",  # SD drafts between two verifications
            fixed=settings.lockstep or not settings.adapt_depth,
            branches=settings.branches,
            rejection=settings.rejection,
        )
        self._told: Configure | None = None
        self._tell_settings()

    def _tell_settings(self) -> None:
        """Send the settings when they differ from what the draft knows."""
        message = told(self.settings)
        if message != self._told:
            self._told = message
            self._send(message)

    def attach(self, port: TargetPort | None) -> None:
        """Speak to a new draft from now on, or to none."""
        self.port = self.reader.port = port
        self.session = Session()
        self._told = None
        self._tell_settings()

    def _send(self, message: Message) -> None:
        if self.port is None:
            return
        self.session.check(message)
        if not self.port.send(message):
            self.warnings.append("the draft does not read its messages; requests go on without it.")
            log.warning(self.warnings[-1])
            self.port = self.reader.port = None

    def admit(self, s: Sequence) -> None:
        """Tell the draft of a row. One that the channel has no room for now goes on without the draft."""
        if self.port is None or s.submission.lookahead == 0:
            return
        message = Admit(s.request, s.row, s.round, s.prompt_length, s.submission.sampling, tuple(s.tokens))
        if self.port.send(message):
            self.session.check(message)
            s.admitted = True
        else:
            self.untold += 1

    def release(self, s: Sequence) -> None:
        """Tell the draft that a row is gone."""
        if s.admitted:
            self._send(Release(s.request))
            s.admitted = False

    def prefilled(self) -> None:
        """A prompt is in. A local draft takes its own prompt in now, so that SD's decoding does not pay for it."""
        if self.port is not None and self.port.local and not self.settings.branches:
            self.port.elapse()

    # -- proposals --------------------------------------------------------------------------------------------------

    def propose(self, rows: Rows[tuple[Sequence, int, int]]) -> float:
        """Decide the next proposal of each row (sequence, committed length before, accepted tokens or the node of a
        tree where the walk ended); seconds spent waiting.
        """
        began = time.monotonic()
        before = self.waited["depth"], self.waited["pending"]
        verified = [s.proposed if base > s.prompt_length else None for s, base, _ in rows]
        for s, base, _ in rows:
            s.proposed = Proposed(lookup=Lookup(len(s.tokens) - base - 1, s.tokens[-1]))
        if self.port is None:
            for s, _, _ in rows:
                s.round += 1
            return 0.0
        self._let_draft_run(rows)
        others = round((len(rows) - 1) * (1 + self._mean_depth))
        self.trees.rows, self.trees.others = len(rows), others
        looking = time.monotonic()
        looked_up = [self._open(*row, proposal) for row, proposal in zip(rows, verified, strict=True)]
        opened = [o for o in looked_up if o is not None]
        if self.trace is not None:
            self.trace.span("look-up", looking, time.monotonic(), {"rows": len(rows)})
        if self.settings.rejection:
            opened = self._ask(opened)
        found = time.monotonic()
        expected = self.chooser.choose(opened, len(rows), others)
        if any(not o.covered for o in opened):  # the choice of an answer is part of what a miss costs
            self.waited["pending"] += time.monotonic() - found
        for o in opened:
            self._go_on(o)
        chosen = time.monotonic()
        for o in opened:
            if o.pending:
                self._settle(o)
        now = time.monotonic()
        self.chooser.waited(expected, now - chosen, len(rows))
        self._note([s for s, _, _ in rows], looked_up, now - began, before)
        return now - began

    def _note(
        self, rows: Rows[Sequence], looked_up: Rows[Open | None], seconds: float, before: tuple[float, float]
    ) -> None:
        """The next round begins: what this one's look-ups gave, and which part of the time was waited for what."""
        depth, pending = self.waited["depth"] - before[0], self.waited["pending"] - before[1]
        handover = seconds - depth - pending
        for s, o in zip(rows, looked_up, strict=True):
            s.round += 1
            s.proposed.wait_seconds, s.proposed.waits = seconds, (depth, pending, handover)
            if o is not None:
                s.proposed.lookup = answered(o.lookup, s.proposed.source, found=o.found)
                if o.verified is not None and o.verified.beside_trunk:
                    self.trees.ended_beside(o.found)
        self._mean_depth = sum(len(s.proposed.tokens) for s in rows) / len(rows)
        self.waited["handover"] += handover
        self.waited["rounds"] += 1

    def _let_draft_run(self, rows: Rows[tuple[Sequence, int, int]]) -> None:
        """Loopback: the draft runs now for what stands for the verification. Lockstep: wait for all branches."""
        port, settings = self.port, self.settings
        assert port is not None
        port.elapse()
        if settings.lockstep and settings.branches and settings.lookahead and not settings.rejection:
            for s, base, end in rows:
                if s.admitted:
                    key = s.key(base, end, s.tokens[-1])
                    port.wait(functools.partial(port.full, s.row, key), LOCKSTEP_SECONDS)

    def _open(self, s: Sequence, base: int, end: int, verified: Proposed | None) -> Open | None:
        """Look one outcome up (line 23); under `rejection` the draft will be asked."""
        if not s.admitted or self.port is None:
            return None
        key = s.key(base, end, s.tokens[-1])
        forced = s.forced(MOST_FORCED)
        o = Open(s, key, max(s.limit(self.settings.lookahead), len(forced)), verified, forced)
        if not self.settings.rejection:
            o.entry = self.reader.find(s.row, key)
            o.found = o.entry is not None and bool(o.entry.tokens)
            o.cached = min(len(o.entry.tokens), o.limit) if o.entry else 0
            o.covered = o.cached > 0
        # A whole proposal in the cache says that its draft lives, and nothing has to be waited for.
        o.ready = self.port.caught_up(s.row, s.request) and (0 < o.limit == o.cached or self.reader.lives())
        prepares = self.settings.branches and self.settings.lookahead > 0
        if prepares:
            o.lookup = look_up(self.port, s.row, key, found=o.found)._replace(accepted=len(s.tokens) - base - 1)
        else:
            o.lookup = s.proposed.lookup
        return o

    def _ask(self, opened: list[Open]) -> list[Open]:
        """Laws travel under `rejection`, so the draft is asked what it has; unless a grammar makes half a proposal
        certain, which is one then. Returns the rows that are still to go on.
        """
        rest: list[Open] = []
        for o in opened:
            o.found = o.lookup.covered  # unless the draft is asked, it may have a token
            if o.forced and (2 * len(o.forced) >= o.limit or not o.ready):
                o.way = Way("forced", 0, len(o.forced))
                self._go_on(o)
                continue
            rest.append(o)
            if o.ready and o.limit > 0:
                o.asked = True
                self._decide(o, "pending", wanted=o.limit)
        for o in rest:
            if not o.asked:
                continue
            began = time.monotonic()
            o.ready = False
            if self.port is not None:
                o.entry = self.reader.await_entry(o.sequence.row, o.key, o.entry, _answers, wanted=o.limit)
            if o.entry is None:
                self.late += 1
                continue
            own = o.entry.kind & ~LAST == FIRST_ENTRY
            o.cached = min(len(o.entry.tokens), o.limit) if own else 0
            o.covered, o.ready = o.cached > 0, not o.entry.kind & LAST
            o.found = o.covered
            self._waited(o, began, time.monotonic(), wanted=o.limit)
        return rest

    def _go_on(self, o: Open) -> None:
        """Carry out the way of a row: take what is there (line 24), or have the draft make it."""
        s, (source, grade, depth, *_) = o.sequence, o.way
        if source == "neural" or (source == "hit" and (o.asked or depth > o.cached)):
            o.pending = True
            if not o.asked:
                self._decide(o, "hit" if o.covered else "pending", wanted=depth)
            return
        law: DraftLaw | None = None
        tokens: tuple[int, ...] = ()
        if source == "hit":
            assert o.entry is not None
            tokens = o.entry.tokens[:depth]
        elif source == "forced":
            tokens, law = o.forced[:depth], PointMassLaw()
        elif source != "none":
            proposal = next(p for name, p, level in o.offers if (name, level) == o.way.kind).cut(depth)
            tokens, law = proposal.tokens, proposal.law
        certain = min(len(tokens), len(o.forced))
        s.proposed = self._sprout(o, Proposed(tokens, source, len(tokens), law, forced=certain, grade=grade))
        if o.asked:
            self._taken(o)
        else:
            self._decide(o, source)

    def _sprout(self, o: Open, chain: Proposed) -> Proposed:
        """The chain from an entry with those of its siblings that pay."""
        settings, siblings = self.settings, o.entry.siblings if o.entry is not None else ()
        if not (settings.tree and settings.branches and siblings and chain.source in ("hit", "neural")):
            return chain
        most = min(settings.tree, o.sequence.fits) - len(chain.tokens)
        tree = self.trees.beside(chain.tokens, siblings, most=most, prune=settings.prune)
        return chain if tree is None else replace(chain, tokens=tree.tokens, tree=tree)

    def _taken(self, o: Open) -> None:
        """Tell the draft, which was asked, what is proposed."""
        p = o.sequence.proposed
        self._send(Taken(o.key.request, o.key.round, p.source if p.tokens else "none", p.tokens, p.parents))

    def _decide(self, o: Open, source: str, *, wanted: int | None = None) -> None:
        """Tell the draft the outcome and what is proposed; with `wanted` the tokens are still to come from it."""
        key, pending = o.key, wanted is not None
        if self.trace is not None:
            self.trace.sent(time.monotonic(), key.request, key.round)
        tokens, parents = ((), ()) if pending else (o.sequence.proposed.tokens, o.sequence.proposed.parents)
        count = len(tokens) if wanted is None else wanted
        outcome = (key.request, key.round, key.base, key.accepted, key.bonus)
        self._send(Decided(*outcome, source, pending, count, tokens, parents))

    def _settle(self, o: Open) -> None:
        """Wait for a pending row, then say what was taken."""
        s, wanted = o.sequence, o.way.depth
        if self.port is None:
            return
        began = time.monotonic()
        entry = self.reader.await_entry(s.row, o.key, o.entry, lambda e: self._enough(o, e), wanted=wanted)
        if entry is not None and entry.reach:
            self._take_tree(o, entry)
            self._waited(o, began, time.monotonic(), wanted=wanted)
            return
        tokens = entry.tokens[:wanted] if entry else ()
        if len(tokens) < wanted:
            self.late += 1
        source = "hit" if o.covered else ("neural" if tokens else "none")
        if len(tokens) < len(o.forced):
            tokens, source = o.forced, "forced"
        certain = min(len(tokens), len(o.forced))
        s.proposed = Proposed(tokens, source, len(tokens), pending=True, forced=certain)
        if source == "forced":
            s.proposed.law = PointMassLaw()
        elif self.settings.rejection and tokens:
            s.proposed.law = self.reader.law(s.row, len(tokens))
        if entry is not None:
            o.entry = entry
            s.proposed = self._sprout(o, s.proposed)
        # What passes between the draft's writing and our seeing it is hand-over, not waiting for the draft.
        now = time.monotonic()
        ended = min(now, max(began, self.port.status().answered)) if tokens and not self.port.local else now
        self._waited(o, began, ended, wanted=wanted)
        self._taken(o)

    def _enough(self, o: Open, entry: Entry) -> bool:
        """Whether an entry ends the wait for it: it is as deep as wanted, or a tree whose next level does not pay."""
        wanted = o.way.depth
        if not entry.reach:
            return len(entry.tokens) >= wanted
        if not self.settings.prune or self.port is None:
            return True
        tree, step = ProposalTree(entry.tokens, entry.parents), self.port.status().single_seconds
        if self.chooser.fixed:
            return tree.levels >= wanted
        return self.trees.suffices(tree, entry.reach, wanted=wanted, step_seconds=step)

    def _take_tree(self, o: Open, entry: Entry) -> None:
        """The proposal is a tree: as much of it as there is room for, and as pays."""
        s, whole = o.sequence, ProposalTree(entry.tokens, entry.parents)
        tree = self.trees.cut(whole, entry.reach, most=s.fits, levels=o.way.depth, prune=self.settings.prune)
        source = "neural" if len(tree) else "none"
        s.proposed = Proposed(tree.tokens, source, tree.levels, pending=True, tree=tree if len(tree) else None)
        self._taken(o)

    def _waited(self, o: Open, began: float, ended: float, *, wanted: int) -> None:
        """The target has waited for the draft."""
        kind = "depth" if o.covered else "pending"
        self.waited[kind] += ended - began
        if self.trace is not None:
            self.trace.span(f"wait, {kind}", began, ended, {"request": o.key.request, "wanted": wanted})

    def finished(self, s: Sequence) -> None:
        """A row has its whole output: later rows may find their own words in it."""
        if self.chooser.corpus is not None:
            self.chooser.corpus.add(s.tokens[s.prompt_length :])

    def statistics(self) -> dict[str, Any]:
        """What is known of answers to misses, as plain values."""
        step = self.port.status().single_seconds if self.port is not None else 0.0
        known = self.estimates.answers.statistics(step / self.estimates.verify_seconds(1))
        return {**known, "acceptance": self.estimates.by_kind(max(1, self.settings.lookahead))}


def _answers(entry: Entry) -> bool:
    """Whether an entry says what the draft has (`rejection`)."""
    return bool(entry.tokens) or entry.kind != FIRST_ENTRY
