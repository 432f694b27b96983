"""The verifier's round (Algorithm 1, lines 5-13): verify, commit, look up, go on.

    logits of [last token, proposal]  →  the target's own token at each position  →  outcome (k, t*)  →  commit
    →  look (k, t*) up in the speculation cache  →  hit: take it, or wait for more when that pays; miss: the fallback
    →  tell the draft what was decided  →  next round

AR is this loop without a port (lookahead 0), SD is it with a local port and no branches (DESIGN D4). Nothing here
decides a token from what the draft says: under shared noise the tokens are those of the target alone. The target
never imports the draft. Tests: tests/lossless/.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from collections.abc import Sequence as Rows
from dataclasses import dataclass
from typing import Any

import torch

from saguaro.algorithm.options import Sampling
from saguaro.algorithm.suffix_index import Corpus
from saguaro.config import MAX_LOOKAHEAD
from saguaro.engine.adapt import measure_rows
from saguaro.engine.metrics import Estimates, Pace
from saguaro.engine.proposing import Proposer
from saguaro.engine.scheduler import Limits, Scheduler, Work
from saguaro.engine.sequence import Proposed, RoundReport, Sequence, Submission
from saguaro.engine.settings import Settings
from saguaro.engine.shifting import Shifting
from saguaro.engine.taps import TapSender
from saguaro.engine.target_trace import trace_answers, trace_pass
from saguaro.engine.trace import Ring
from saguaro.engine.tree_rows import put_in_order, rows_of
from saguaro.engine.verifying import asked_for_it, outcomes
from saguaro.errors import RequestRefused
from saguaro.execution.batch import Span
from saguaro.execution.runner import Runner
from saguaro.execution.sampler import Draw, draw_tokens, token_logprobs
from saguaro.models.grammar import Grammars
from saguaro.paging import PagePool
from saguaro.request import TokenLogprob
from saguaro.transport.base import TargetPort

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that ended without a result, and why."""

    request: int
    error: str
    message: str


Event = tuple[int, RoundReport] | Failure


def _raw(logits_WV: torch.Tensor, rows: Rows[Sequence]) -> torch.Tensor:
    """The logits as log probabilities want them: a copy where a request both asks for those and changes its logits."""
    asked = any(s.submission.logprobs is not None and s.submission.sampling.edited for s in rows)
    return logits_WV.clone() if asked else logits_WV


class TargetWorker:
    """The target's side of all rows. `emit` receives the events of a round as soon as the round has ended."""

    def __init__(
        self,
        runner: Runner,
        pool: PagePool,
        *,
        vocab: int,
        limits: Limits,
        prefix_cache: bool,
        beside: int | None,
        settings: Settings,
        grammars: Grammars,
        emit: Callable[[list[Event]], None],
        acceptance: Rows[float] = (),
        trace: Ring | None = None,
        corpus: Corpus | None = None,
    ) -> None:
        self.runner = runner
        self.vocab = vocab
        self.emit = emit
        self._events: list[Event] = []  # of the round under way
        self.grammars = grammars
        self.scheduler = Scheduler(pool, limits, prefix_cache=prefix_cache)
        self.pace = Pace(limits.chunk, fixed=beside)
        self.estimates = Estimates(max_lookahead=16, start=acceptance)
        self.proposer = Proposer(self.estimates, vocab, settings, trace, corpus)
        self.shifting = Shifting(self.proposer, self.estimates)
        self._looked = False
        self.trace = trace
        self.warnings: list[str] = []
        self.taps: TapSender | None = None
        self.seconds = {"schedule": 0.0, "model": 0.0, "draw": 0.0, "report": 0.0, "propose": 0.0}

    # -- commands -------------------------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> None:
        """Queue a request; one that can never run is answered with a `Failure`."""
        try:
            if any(not 0 <= token < self.vocab for token in submission.prompt):
                raise RequestRefused(f"the prompt holds a token id outside 0 ... {self.vocab - 1}.")
            if submission.sampling.grammar:
                self.grammars.compile(submission.sampling.grammar)
            self.scheduler.submit(submission)
        except RequestRefused as error:
            self.emit([Failure(submission.request, "RequestRefused", str(error))])

    def abort(self, request: int) -> None:
        """End a request now; an ended or unknown one is ignored."""
        if self.scheduler.cancel(request):
            return
        sequence = self.scheduler.find(request)
        if sequence is not None:
            self._leave(sequence)

    def attach(self, port: TargetPort | None) -> None:
        """A new draft (its cache knows nothing yet), or none."""
        self.proposer.attach(port)
        for sequence in self.scheduler.running:
            sequence.proposed = Proposed()
            sequence.admitted, sequence.drafted = False, 0
            self.proposer.admit(sequence)

    # -- one step -------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One pass over all rows: pieces of prompts, and a round of each row that decodes; False without work."""
        if not self.scheduler.busy:
            return False
        began = time.monotonic()
        step = self.scheduler.next(self.pace.tokens)
        for s in step.preempted:
            self.proposer.release(s)
        for sources, targets in step.copies:
            self.runner.pool.move(list(sources), list(targets))
        for s in step.admitted:
            if s.grammar is None:
                s.grammar = self.grammars.follow(s.submission.sampling, s.tokens[s.prompt_length :])
            self.proposer.admit(s)
        self.seconds["schedule"] += time.monotonic() - began
        self._run(step.work)
        return True

    def _run(self, work: list[Work]) -> None:
        began = time.monotonic()
        logits_WV = self.runner.run([self._span(w) for w in work])  # line 8: verify
        assert logits_WV is not None
        logits_JV = self._prompt_logprobs(work, logits_WV)
        rows = [w.sequence for w in work if w.ends]
        raw_JV = _raw(logits_JV, rows)
        passed = time.monotonic() - began
        self.seconds["model"] += passed
        if self.taps is not None:
            self.taps.passed(work)
        if any(not s.prefilled for s in rows):
            self.proposer.prefilled()
        verified = time.monotonic()
        drawn = outcomes(logits_JV, rows, rejection=self.proposer.settings.rejection) if rows else []
        if self.taps is not None:
            self.taps.verified(rows, drawn)
        put_in_order(self.runner.pool, rows)
        ended = time.monotonic()
        drawing = ended - verified
        seconds = passed + drawing  # what a local draft took for its own prompt is not the target's
        filled = self._account(work, seconds)
        if self.trace is not None:
            trace_pass(self.trace, work, (began, began + passed, verified, ended))
        self.seconds["draw"] += drawing
        depths = [] if filled else [(s.proposed.levels, s.proposed.forced) for s in rows]
        for w in work:
            if not w.ends:
                w.sequence.kv += w.count
                self.scheduler.file(w.sequence)
        going_on: list[tuple[Sequence, int, int]] = []
        at = 0
        for s, tokens in zip(rows, drawn, strict=True):
            base, accepted = len(s.tokens), len(tokens) - 1
            logprobs = self._logprobs(s, rows_of(s.proposed, raw_JV[at:]), tokens)
            at += len(s.proposed.tokens) + 1
            end = accepted if s.proposed.tree is None else s.proposed.node
            if not tokens:
                self._fail(s, s.failure)
                continue
            self._learn(s, accepted)
            self._finish_round(s, accepted, tokens, (seconds, drawing), len(work), logprobs)
            if s.finish is None:
                s.fits = self._fits(s)
                going_on.append((s, base, end))
        self._tell()
        reported = time.monotonic()
        self.seconds["report"] += reported - ended
        if self.trace is not None:
            self.trace.span("report", ended, reported)
        waited = self.proposer.propose(going_on) if going_on else 0.0  # lines 10, 13 and 23-26
        self.seconds["propose"] += waited
        if self.trace is not None and self.proposer.settings.branches:
            trace_answers(self.trace, [s for s, _, _ in going_on], time.monotonic())
        self._looked = self.proposer.settings.branches
        if self.estimates.hopeless and not self.warnings:
            self._warn_of_draft()
        if not filled:
            self.estimates.round_took(sum(len(tokens) for tokens in drawn), seconds + waited, len(rows))
            self.shifting.ended(depths, seconds + waited, [s for s, _, _ in going_on])

    def _tell(self) -> None:
        told, self._events = self._events, []
        if told:
            self.emit(told)

    def _learn(self, s: Sequence, accepted: int) -> None:
        """What an outcome says of the draft; an idle one, and what a grammar makes certain, say nothing."""
        if s.proposed.forced or not s.prefilled or not self.proposer.settings.lookahead:
            return
        p, tried, kept = s.proposed, s.proposed.tried(accepted), accepted
        if self.proposer.settings.branches:  # how deep a chain is worth waiting for is a matter of chains
            tried, kept = p.on_trunk(accepted)
        self.estimates.verified(tried, kept, (p.source, p.grade), tokens=accepted + 1)
        if self._looked and s.admitted:
            self.estimates.looked_up(s.proposed.source == "hit")

    def _fits(self, s: Sequence) -> int:
        """Tokens of the next proposal that there is room for."""
        settings = self.proposer.settings
        most = MAX_LOOKAHEAD if s.grammar is not None else max(settings.lookahead, settings.tree)
        own = s.submission.lookahead
        return self.scheduler.fit(s, most if own is None else min(most, own)) if s.admitted else 0

    def _warn_of_draft(self) -> None:
        kept, tried = self.estimates.first_accepted, self.estimates.proposals
        self.warnings.append(
            f"the target accepted {kept} of the first tokens of {tried} proposals; the draft does not fit it, and "
            f"decoding without a draft would be as fast."
        )
        log.warning(self.warnings[-1])

    @staticmethod
    def _span(w: Work) -> Span:
        """The tokens of a row that have no keys and values yet, and behind the last the proposal."""
        s = w.sequence
        tokens = s.tokens[s.kv : s.kv + w.count]
        if w.ends:
            tokens = [*tokens, *s.proposed.tokens]
        tree = s.proposed.tree if w.ends else None
        wanted = len(s.proposed.tokens) + 1 if w.ends else 0
        if s.submission.prompt_logprobs is not None and not s.prefilled:
            wanted = len(tokens)
        slots, parents = s.table.slots(s.kv, s.kv + len(tokens)), () if tree is None else tree.parents
        return Span(tokens, s.kv, s.table.pages, slots, wanted=wanted, parents=parents)

    def _account(self, work: list[Work], seconds: float) -> int:
        """What the step says about times; returns how many tokens of prompts it ran."""
        filling = sum(w.count for w in work if w.sequence.filling)
        decoding = sum(1 + len(w.sequence.proposed.tokens) for w in work if not w.sequence.filling)
        self.pace.took(filling, decoding, seconds)
        for w in work:
            if not w.sequence.prefilled:
                w.sequence.prefill_seconds += seconds
        if not filling:
            self.estimates.verify.took(decoding, seconds)
        return filling

    @staticmethod
    def _prompt_logprobs(work: list[Work], logits_WV: torch.Tensor) -> torch.Tensor:
        """Note the log probabilities of prompts that were asked for; return the rows of outcomes alone."""
        if all(w.sequence.submission.prompt_logprobs is None or w.sequence.prefilled for w in work):
            return logits_WV
        outcome_rows: list[int] = []
        at = 0
        for w in work:
            s, count = w.sequence, w.sequence.submission.prompt_logprobs
            if count is not None and not s.prefilled:
                known = len(s.prompt_logprobs)  # a prompt that is filled again has some already
                first = max(s.kv, known)
                targets = s.tokens[first + 1 : s.kv + w.count + 1]
                if targets:
                    s.prompt_logprobs += token_logprobs(logits_WV[at + first - s.kv :], targets, count)
                at += w.count - int(w.ends)
            if w.ends:
                outcome_rows += range(at, at + len(s.proposed.tokens) + 1)
                at += len(s.proposed.tokens) + 1
        return logits_WV[outcome_rows]

    @staticmethod
    def _logprobs(s: Sequence, logits_WV: torch.Tensor, tokens: Rows[int]) -> list[TokenLogprob] | None:
        """Of the tokens of a round, whose rows are the first of `logits_WV`, where the request asks for them."""
        count = s.submission.logprobs
        return None if count is None or not tokens else token_logprobs(logits_WV, tokens, count)

    def _finish_round(
        self,
        s: Sequence,
        accepted: int,
        tokens: Rows[int],
        times: tuple[float, float],
        count: int,
        logprobs: list[TokenLogprob] | None,
    ) -> None:
        """Commit an outcome and report it. `times`: seconds of the whole pass, and of drawing; `count`: the rows of
        the pass. The outcome of a prompt is (0, t_0); the first token never waits for the draft.
        """
        first = not s.prefilled
        kept = s.commit(list(tokens))
        s.kv = len(s.tokens) - 1
        self.scheduler.file(s)
        p = s.proposed
        report = RoundReport(
            tokens=kept,
            proposed=len(p.tokens),
            accepted=accepted,
            source="prefill" if first else p.source,
            depth=p.depth,
            wait_seconds=p.wait_seconds,
            verify_seconds=s.prefill_seconds if first else times[0],
            draw_seconds=times[1],
            time=time.monotonic(),
            finish=s.finish,
            looked=self._looked,
            logprobs=None if logprobs is None else logprobs[: len(kept)],
            prompt_logprobs=s.prompt_logprobs if first and s.submission.prompt_logprobs is not None else None,
            cached_tokens=s.cached_tokens,
            preemptions=s.preemptions,
            round=s.round,
            lookup=p.lookup,
            waits=p.waits,
            rows=count,
            tried=p.tried(accepted),
        )
        if s.finish is not None:
            self.proposer.finished(s)
            self._leave(s)
        self._events.append((s.request, report))

    def _fail(self, sequence: Sequence, message: str) -> None:
        self._leave(sequence, keep=False)
        sequence.finish = "abort"
        kind = "RequestRefused" if asked_for_it(sequence) else "SaguaroError"
        self._events.append(Failure(sequence.request, kind, message))

    def _leave(self, sequence: Sequence, *, keep: bool = True) -> None:
        self.scheduler.leave(sequence, keep=keep)
        self.proposer.release(sequence)

    # -- measuring ------------------------------------------------------------------------------------------------

    def measure(self, rows: Rows[int], *, beside: bool = False, **sizes: Any) -> dict[int, float]:
        """Seconds of a verification of each count of rows (`adapt.measure_rows`), drawing included; `beside` a draft at
        work, or alone.
        """
        draw = Draw(Sampling(), 0)

        def verify(span: Span) -> None:
            logits_WV = self.runner.run([span])
            assert logits_WV is not None
            draw_tokens(logits_WV, [draw] * len(span.tokens))

        times = measure_rows(verify, self.scheduler.pool, rows, **sizes)
        self.estimates.measured(times, beside=beside)
        return times

    def configure(self, settings: Settings) -> None:
        """New settings from the next round on."""
        self.shifting.configure(settings)

    def statistics(self) -> dict[str, Any]:
        """Running estimates and counters, as plain values."""
        proposer, estimates = self.proposer, self.estimates
        status = proposer.port.status() if proposer.port is not None else None
        return {
            "verify_seconds": dict(estimates.verify.known()),
            "draft_step_seconds": status.step_seconds if status else None,
            "acceptance": estimates.acceptance(max(1, proposer.settings.lookahead)),
            "waited": dict(proposer.waited),
            "fallback": proposer.statistics(),
            "garbled_entries": proposer.reader.garbled,
            "late_proposals": proposer.late,
            "untold_rows": proposer.untold,
            "warnings": [*self.warnings, *self.proposer.warnings, *self.shifting.warnings],
            **self.shifting.statistics(),
            "seconds": dict(self.seconds),
            "pages": self.scheduler.pool.num_pages,
            "pages_used": self.scheduler.pool.used,
            "pages_kept": self.scheduler.pool.kept,
            "running": len(self.scheduler.running),
            "waiting": len(self.scheduler.waiting),
            "preemptions": self.scheduler.preemptions,
        }
