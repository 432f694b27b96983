"""Between two verifications: from outcomes to the next proposals (Algorithm 1, lines 9-13).

The look-up happens here, on the target's side (DESIGN D3). Waiting is a choice: on a covered outcome the target waits
for a deeper entry, on an uncovered one it asks the draft, as long as that raises tokens a second. A pending wait ends
after three times the expected time; then the round decodes without a proposal. Nothing that the draft sends is
trusted: an entry with an impossible token is dropped and counted. Where a grammar makes the next tokens certain, they
are a proposal that takes no draft (`forced`), unless what the draft has goes further. Tests: tests/engine/,
tests/lossless/.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from collections.abc import Sequence as Rows
from dataclasses import dataclass

from torch.nn.functional import pad

from saguaro.algorithm import waiting
from saguaro.algorithm.terms import DenseLaw, PointMassLaw
from saguaro.config import FanOut, fan_out_lists
from saguaro.drafting.fallbacks import FALLBACKS
from saguaro.drafting.fallbacks.base import Fallback, Missed
from saguaro.engine.metrics import Estimates
from saguaro.engine.misses import NO_LOOKUP, Lookup, answered, look_up
from saguaro.engine.sequence import Proposed, Sequence
from saguaro.engine.trace import Ring
from saguaro.models.grammar import MOST_FORCED
from saguaro.protocol.messages import FIRST_ENTRY, LAST, Admit, Configure, Decided, Message, Release, Taken
from saguaro.protocol.session import Session
from saguaro.transport.base import Entry, Key, TargetPort

log = logging.getLogger(__name__)

FIRST_STEP_GUESS = 0.02
LOCKSTEP_SECONDS = 30.0
PATIENCE = 3.0
SILENT_SECONDS, SILENT_STEPS = 0.3, 6


@dataclass(frozen=True, slots=True)
class Settings:
    """What may change between rounds. With a lookahead of 0 the draft is told of every outcome and does nothing.

    `fan_out` is as in `EngineConfig`. Without `branches` nothing is cached (SD).
    """

    lookahead: int = 0
    budget: int = 0
    fan_out: FanOut = "none"
    branches: bool = False
    fallback: str = "neural"
    lockstep: bool = False
    rejection: bool = False
    saguaro_c: float = 1.0
    adapt_depth: bool = True


@dataclass(slots=True)
class Open:
    """A row between its outcome and its proposal. `forced`: the tokens that its grammar makes certain; `found`: there
    was an entry that could be taken.
    """

    sequence: Sequence
    key: Key
    limit: int
    forced: tuple[int, ...] = ()
    covered: bool = False
    wanted: int = 0
    pending: bool = False
    entry: Entry | None = None
    lookup: Lookup = NO_LOOKUP
    found: bool = False


class Proposer:
    """The look-up, the fallback and the talk with the draft."""

    def __init__(self, estimates: Estimates, vocab: int, settings: Settings, trace: Ring | None = None) -> None:
        self.trace = trace
        self.estimates = estimates
        self.vocab = vocab
        self.port: TargetPort | None = None
        self.session = Session()
        self.garbled = 0
        self.late = 0
        self.untold = 0
        self.warnings: list[str] = []
        self._others = 0  # tokens of the other rows in the next verification, as far as one can know
        self._mean_depth = 0.0
        self.waited = {"depth": 0.0, "pending": 0.0, "handover": 0.0, "rounds": 0.0}
        self.configure(settings)

    # -- the channel ------------------------------------------------------------------------------------------------

    def configure(self, settings: Settings) -> None:
        """New settings; the draft is told."""
        self.settings = settings
        self.fallback: Fallback = FALLBACKS.get(settings.fallback)()
        self._told: Configure | None = None
        self._tell_settings()

    def _tell_settings(self) -> None:
        """Send the settings when they differ from what the draft knows."""
        s = self.settings
        lists = fan_out_lists(s.fan_out)
        message = Configure(
            lookahead=s.lookahead,
            rejection=s.rejection,
            branches=s.branches,
            saguaro_c=s.saguaro_c,
            budget=s.budget,
            everything=s.lockstep,
            listed=len(lists[0]) if lists else 0,
            fan_out=s.fan_out if isinstance(s.fan_out, str) else "listed",
            tokens=tuple(count for each in lists for count in each),
        )
        if message != self._told:
            self._told = message
            self._send(message)

    def attach(self, port: TargetPort | None) -> None:
        """Speak to a new draft from now on, or to none."""
        self.port = port
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
            self.port = None

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
        """Decide the next proposal of each row (sequence, committed length before, accepted); seconds spent waiting."""
        began = time.monotonic()
        before = self.waited["depth"], self.waited["pending"]
        for s, _, accepted in rows:
            s.proposed = Proposed(lookup=Lookup(accepted, s.tokens[-1]))
        if self.port is None:
            for s, _, _ in rows:
                s.round += 1
            return 0.0
        self._let_draft_run(rows)
        self._others = round((len(rows) - 1) * (1 + self._mean_depth))
        looked = time.monotonic()
        opened = [self._open(s, base, accepted) for s, base, accepted in rows]
        if self.trace is not None:
            self.trace.span("look-up", looked, time.monotonic(), {"rows": len(rows)})
        pending = [o for o in opened if o is not None and o.pending]
        for o in pending:
            self._settle(o)
        seconds = time.monotonic() - began
        depth, pending_for = self.waited["depth"] - before[0], self.waited["pending"] - before[1]
        handover = seconds - depth - pending_for
        for (s, _, _), row in zip(rows, opened, strict=True):
            s.round += 1
            s.proposed.wait_seconds, s.proposed.waits = seconds, (depth, pending_for, handover)
            if row is not None:
                s.proposed.lookup = answered(row.lookup, s.proposed.source, found=row.found)
        self._mean_depth = sum(len(s.proposed.tokens) for s, _, _ in rows) / len(rows)
        self.waited["handover"] += handover
        self.waited["rounds"] += 1
        return seconds

    def _let_draft_run(self, rows: Rows[tuple[Sequence, int, int]]) -> None:
        """Loopback: the draft runs now for what stands for the verification. Lockstep: wait for all branches."""
        port, settings = self.port, self.settings
        assert port is not None
        port.elapse()
        if settings.lockstep and settings.branches and settings.lookahead and not settings.rejection:
            for s, base, accepted in rows:
                if s.admitted:
                    key = s.key(base, accepted, s.tokens[-1])
                    port.wait(functools.partial(port.full, s.row, key), LOCKSTEP_SECONDS)

    def _open(self, s: Sequence, base: int, accepted: int) -> Open | None:
        """Look one outcome up (line 10) and say what follows; pending rows are settled afterwards."""
        if not s.admitted or self.port is None:
            return None
        key = s.key(base, accepted, s.tokens[-1])
        forced = s.forced(MOST_FORCED)
        o = Open(s, key, limit=max(s.limit(self.settings.lookahead), len(forced)), forced=forced)
        prepares = self.settings.branches and self.settings.lookahead > 0
        o.lookup = look_up(self.port, s.row, key) if prepares else Lookup(accepted, key.bonus)
        ready = self.port.caught_up(s.row, s.request) and self._draft_lives()
        if self.settings.rejection:
            self._open_rejection(o, ready)
            o.found = o.lookup.covered and not o.pending  # it may have had a token: only an answer would tell
            return o
        entry = self._valid(self.port.find(s.row, key))
        cached = min(len(entry.tokens), o.limit) if entry else 0
        available = max(cached, len(forced))
        o.covered, o.entry, o.found = cached > 0, entry, entry is not None and bool(entry.tokens)
        may_wait = ready and (o.covered or self.fallback.asks_draft)
        o.wanted = self._depth(o, available, may_wait)
        if available and o.wanted <= available:
            assert entry is not None or forced
            hit = entry is not None and 0 < cached >= o.wanted
            tokens = entry.tokens[: o.wanted] if entry is not None and hit else forced[: o.wanted]
            self._take(o, tokens, "hit" if hit else "forced")
        elif may_wait and o.wanted > 0:
            o.pending = True
            self._decide(o, "hit" if o.covered else "pending", ())
        else:
            self._without_draft(o, ready)
        return o

    def _open_rejection(self, o: Open, ready: bool) -> None:
        """Laws travel, so the draft is asked; unless a grammar makes half a proposal certain, which is one then."""
        o.wanted = o.limit
        if o.forced and (2 * len(o.forced) >= o.limit or not ready):
            self._take(o, o.forced, "forced")
        elif ready and o.limit > 0:
            o.pending = True
            self._decide(o, "pending", ())
        else:
            self._without_draft(o, ready)

    def _take(self, o: Open, tokens: tuple[int, ...], source: str) -> None:
        """A proposal that is there already."""
        law = PointMassLaw() if source == "forced" else None
        o.sequence.proposed = Proposed(tokens, source, len(tokens), law, forced=min(len(tokens), len(o.forced)))
        self._decide(o, source, tokens)

    def _draft_lives(self) -> bool:
        """A draft that has been silent for long is not waited for; the supervisor will see to it."""
        assert self.port is not None
        if self.port.local or self.settings.lockstep:
            return True
        status = self.port.status()
        return time.monotonic() - status.heartbeat < max(SILENT_SECONDS, SILENT_STEPS * status.step_seconds)

    def _without_draft(self, o: Open, ready: bool) -> None:
        """A proposal that the target draws itself, or none."""
        s = o.sequence
        if not self.fallback.asks_draft and o.limit > 0:
            s.proposed = self._own(o)
        self._decide(o, s.proposed.source, s.proposed.tokens)

    def _own(self, o: Open) -> Proposed:
        """What the fallback proposes without the draft."""
        s, fallback = o.sequence, self.fallback
        cached: tuple[tuple[int, tuple[int, ...]], ...] = ()
        if fallback.reads_cache and self.port is not None:
            entries = self.port.entries(s.row, s.request, o.key.round)
            cached = tuple((entry.key.accepted, entry.tokens) for entry in entries if self._valid(entry))
        own = s.submission.sampling
        proposal = fallback.propose(
            Missed(tuple(s.tokens), own.seed, own.choice, s.round + 1, o.limit, self.vocab, o.key.accepted, cached)
        )
        if not proposal.tokens:
            return Proposed()
        return Proposed(proposal.tokens, fallback.source, len(proposal.tokens), law=proposal.law)

    def _decide(self, o: Open, source: str, tokens: tuple[int, ...]) -> None:
        key = o.key
        if self.trace is not None:
            self.trace.sent(time.monotonic(), key.request, key.round)
        self._send(
            Decided(key.request, key.round, key.base, key.accepted, key.bonus, source, o.pending, o.wanted, tokens)
        )

    def _depth(self, o: Open, available: int, may_wait: bool) -> int:
        """How many tokens to go for: the waiting rule of DESIGN D3."""
        most = o.limit if may_wait else available
        if most <= 0 or self.settings.lockstep or not self.settings.adapt_depth:
            return max(most, 0)
        estimates = self.estimates
        waits = self._waits(available, most)
        verify_seconds = [estimates.verify_seconds(self._others + j + 1) for j in range(most + 1)]
        certain = len(o.forced)
        expected = waiting.expected_tokens([*[1.0] * certain, *estimates.acceptance(most)[certain:]])
        return waiting.choose_depth(waits, verify_seconds, expected, estimates.rate())

    def _waits(self, available: int, most: int) -> list[float]:
        """Expected seconds until each depth 0 ... most is there: what a step in flight still takes, then steps of one
        row, since a draft that is waited for runs nothing else.
        """
        assert self.port is not None
        status = self.port.status()
        step = status.single_seconds or FIRST_STEP_GUESS
        first = step
        if available and status.step_started:
            gone = max(0.0, time.monotonic() - status.step_started)
            first = max(0.0, status.step_seconds - gone)
        return [0.0 if j <= available else first + (j - available - 1) * step for j in range(most + 1)]

    # -- pending rows -------------------------------------------------------------------------------------------------

    def _settle(self, o: Open) -> None:
        """Wait for a pending row, then say what was taken (line 12)."""
        s = o.sequence
        if self.port is None:
            return
        began = time.monotonic()
        entry = self._await_entry(o, lambda e: bool(e.tokens) or e.kind != FIRST_ENTRY)
        if self.settings.rejection:
            o.covered = entry is not None and entry.kind & ~LAST == FIRST_ENTRY
            if not o.covered and not self.fallback.asks_draft:
                self._take_own(o)
                return
        entry = self._await_entry(o, lambda e: len(e.tokens) >= o.wanted)
        tokens = entry.tokens[: o.wanted] if entry else ()
        if len(tokens) < o.wanted:
            self.late += 1
        source = "hit" if o.covered else ("neural" if tokens else "none")
        if len(tokens) < len(o.forced):
            tokens, source = o.forced, "forced"
        certain = min(len(tokens), len(o.forced))
        s.proposed = Proposed(tokens, source, len(tokens), pending=True, forced=certain)
        if source == "forced":
            s.proposed.law = PointMassLaw()
        elif self.settings.rejection and tokens:
            laws_KV = self.port.laws(s.row, len(tokens))
            s.proposed.law = DenseLaw(pad(laws_KV, (0, self.vocab - laws_KV.shape[1])))
        # What passes between the draft's writing and our seeing it is hand-over, not waiting for the draft.
        now = time.monotonic()
        ended = min(now, max(began, self.port.status().answered)) if tokens and not self.port.local else now
        kind = "depth" if o.covered else "pending"
        self.waited[kind] += ended - began
        if self.trace is not None:
            self.trace.span(f"wait, {kind}", began, now, {"request": s.request, "wanted": o.wanted})
        self._send(Taken(s.request, o.key.round, source if tokens else "none", tokens))

    def _take_own(self, o: Open) -> None:
        s = o.sequence
        s.proposed = self._own(o)
        self._send(Taken(s.request, o.key.round, s.proposed.source, s.proposed.tokens))

    def _await_entry(self, o: Open, enough: Callable[[Entry], bool]) -> Entry | None:
        """The deepest valid entry for a pending key, once it is enough or the wait has lasted too long."""
        port = self.port
        assert port is not None

        def ready() -> bool:
            o.entry = self._valid(port.find(o.sequence.row, o.key)) or o.entry
            return o.entry is not None and (enough(o.entry) or bool(o.entry.kind & LAST))

        port.wait(ready, self._patience(o.wanted))
        return o.entry

    def _patience(self, wanted: int) -> float:
        assert self.port is not None
        if self.settings.lockstep or self.port.local:
            return LOCKSTEP_SECONDS
        step = self.port.status().step_seconds or FIRST_STEP_GUESS
        return PATIENCE * (wanted + 1) * step + 0.05

    def _valid(self, entry: Entry | None) -> Entry | None:
        """Drop what no honest draft sends."""
        if entry is None:
            return None
        if any(not 0 <= token < self.vocab for token in entry.tokens):
            self.garbled += 1
            if self.garbled == 1:
                log.warning(
                    "an entry of the speculation cache holds an impossible token; it and others like it are dropped."
                )
            return None
        return entry
