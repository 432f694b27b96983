"""The verifier's round (Algorithm 1, lines 5-13): verify, commit, look up, go on.

    logits of [last token, proposal]  →  the target's own token at each position  →  outcome (k, t*)  →  commit
    →  look (k, t*) up in the speculation cache  →  hit: take it, or wait for more when that pays; miss: the fallback
    →  tell the draft what was decided  →  next round

AR is this loop without a port (lookahead 0), SD is it with a local port and no branches (DESIGN D4). Nothing here
decides a token from what the draft says: under shared noise the tokens are those of the target alone. The target
never imports the draft. Tests: tests/engine/test_target.py, tests/lossless/.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Rows
from dataclasses import dataclass
from typing import Any

import torch

from saguaro.algorithm.options import Sampling
from saguaro.engine.adapt import measure_rows
from saguaro.engine.metrics import Estimates
from saguaro.engine.proposing import Proposer, Settings
from saguaro.engine.scheduler import Scheduler
from saguaro.engine.sequence import Proposed, RoundReport, Sequence, Submission
from saguaro.engine.verifying import outcomes
from saguaro.errors import RequestRefused
from saguaro.execution.batch import Span
from saguaro.execution.runner import Runner
from saguaro.execution.sampler import Draw, draw_tokens, token_logprobs
from saguaro.models.grammar import Grammars
from saguaro.paging import PagePool
from saguaro.request import TokenLogprob
from saguaro.transport.base import TargetPort


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
    """The target's side of all rows. `emit` receives events as soon as they exist."""

    def __init__(
        self,
        runner: Runner,
        pool: PagePool,
        *,
        vocab: int,
        max_batch: int,
        max_model_len: int,
        prefill_chunk: int,
        settings: Settings,
        grammars: Grammars,
        emit: Callable[[Event], None],
    ) -> None:
        self.runner = runner
        self.vocab = vocab
        self.prefill_chunk = prefill_chunk
        self.emit = emit
        self.grammars = grammars
        self.scheduler = Scheduler(pool, max_batch=max_batch, max_model_len=max_model_len)
        self.estimates = Estimates(max_lookahead=16)
        self.proposer = Proposer(self.estimates, vocab, settings)

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
            self.emit(Failure(submission.request, "RequestRefused", str(error)))

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
            sequence.admitted = False
            if sequence.prefilled:
                self.proposer.admit(sequence)

    # -- one step -------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Prefill a piece of a prompt, or run one round of all rows; False when there is nothing to do."""
        for sequence in self.scheduler.admit():
            output = sequence.tokens[sequence.prompt_length :]
            sequence.grammar = self.grammars.follow(sequence.submission.sampling, output)
            self.proposer.admit(sequence)
        running = self.scheduler.running
        if not running:
            return False
        waiting = next((s for s in running if not s.prefilled), None)
        if waiting is not None:
            self._prefill(waiting)
        else:
            self._round(list(running))
        return True

    def _prefill(self, sequence: Sequence) -> None:
        """Round 0: its outcome is (0, t_0). The first token never waits for the draft."""
        began = time.monotonic()
        start = sequence.kv
        tokens = sequence.submission.prompt[start : start + self.prefill_chunk]
        done = start + len(tokens) == sequence.prompt_length
        slots = sequence.table.slots(start, start + len(tokens))
        logits_WV = self.runner.run([Span(tokens, start, sequence.table.pages, slots, wanted=int(done))])
        sequence.kv += len(tokens)
        sequence.prefill_seconds += time.monotonic() - began
        if not done:
            return
        assert logits_WV is not None
        self.proposer.prefilled()
        sequence.proposed = Proposed(source="prefill")
        raw_WV = _raw(logits_WV, [sequence])
        [own] = outcomes(logits_WV, [sequence], rejection=self.proposer.settings.rejection)
        logprobs = self._logprobs(sequence, raw_WV, own)
        seconds = sequence.prefill_seconds
        self._finish_round(sequence, accepted=0, tokens=own, seconds=seconds, drawing=0.0, logprobs=logprobs)
        if sequence.finish is None:
            self.proposer.propose([(sequence, sequence.prompt_length, 0)])

    def _round(self, rows: list[Sequence]) -> None:
        began = time.monotonic()
        spans = []
        for s in rows:
            start = len(s.tokens) - 1
            tokens = [s.tokens[-1], *s.proposed.tokens]
            slots = s.table.slots(start, start + len(tokens))
            spans.append(Span(tokens, start, s.table.pages, slots, wanted=len(tokens)))
        logits_WV = self.runner.run(spans)  # line 8: verify
        assert logits_WV is not None
        raw_WV = _raw(logits_WV, rows)
        verified = time.monotonic()
        drawn = outcomes(logits_WV, rows, rejection=self.proposer.settings.rejection)
        ended = time.monotonic()
        seconds, drawing = ended - began, ended - verified
        total = sum(len(span.tokens) for span in spans)
        if len(rows) == 1:
            self.estimates.verify.took(total, seconds)
        going_on: list[tuple[Sequence, int, int]] = []
        at = 0
        for s, tokens in zip(rows, drawn, strict=True):
            base, accepted = len(s.tokens), len(tokens) - 1
            logprobs = self._logprobs(s, raw_WV[at:], tokens)
            at += len(s.proposed.tokens) + 1
            if not tokens:
                self._fail(s, s.failure)
                continue
            if not s.proposed.forced:  # what a grammar makes certain says nothing about the draft
                self.estimates.verified(len(s.proposed.tokens), accepted)
            self._finish_round(s, accepted=accepted, tokens=tokens, seconds=seconds, drawing=drawing, logprobs=logprobs)
            if s.finish is None:
                going_on.append((s, base, accepted))
        waited = self.proposer.propose(going_on)  # lines 9-13
        committed = sum(len(tokens) for tokens in drawn)
        self.estimates.round_took(committed, seconds + waited)

    @staticmethod
    def _logprobs(s: Sequence, logits_WV: torch.Tensor, tokens: Rows[int]) -> list[TokenLogprob] | None:
        """Of the tokens of a round, whose rows are the first of `logits_WV`, where the request asks for them."""
        count = s.submission.logprobs
        return None if count is None or not tokens else token_logprobs(logits_WV, tokens, count)

    def _finish_round(
        self,
        s: Sequence,
        *,
        accepted: int,
        tokens: Rows[int],
        seconds: float,
        drawing: float,
        logprobs: list[TokenLogprob] | None,
    ) -> None:
        if not tokens:
            self._fail(s, s.failure)
            return
        kept = s.commit(list(tokens))
        s.kv = len(s.tokens) - 1
        p = s.proposed
        report = RoundReport(
            tokens=kept,
            proposed=len(p.tokens),
            accepted=accepted,
            source=p.source,
            depth=p.depth,
            wait_seconds=p.wait_seconds,
            verify_seconds=seconds,
            draw_seconds=drawing,
            time=time.monotonic(),
            finish=s.finish,
            logprobs=None if logprobs is None else logprobs[: len(kept)],
        )
        if s.finish is not None:
            self._leave(s)
        self.emit((s.request, report))

    def _fail(self, sequence: Sequence, message: str) -> None:
        self._leave(sequence)
        sequence.finish = "abort"
        self.emit(Failure(sequence.request, "SaguaroError", message))

    def _leave(self, sequence: Sequence) -> None:
        self.scheduler.leave(sequence)
        self.proposer.release(sequence)

    # -- measuring ------------------------------------------------------------------------------------------------

    def measure(self, rows: Rows[int], **sizes: Any) -> dict[int, float]:
        """Median seconds of a verification of each count of rows (`adapt.measure_rows`), drawing included."""
        draw = Draw(Sampling(), 0)

        def verify(span: Span) -> None:
            logits_WV = self.runner.run([span])
            assert logits_WV is not None
            draw_tokens(logits_WV, [draw] * len(span.tokens))

        times = measure_rows(verify, self.scheduler.pool, rows, **sizes)
        self.estimates.verify.measured(times)
        return times

    def configure(self, settings: Settings) -> None:
        """New settings from the next round on."""
        self.proposer.configure(settings)

    def statistics(self) -> dict[str, Any]:
        """Running estimates and counters, as plain values."""
        proposer, estimates = self.proposer, self.estimates
        status = proposer.port.status() if proposer.port is not None else None
        return {
            "verify_seconds": dict(estimates.verify.known()),
            "draft_step_seconds": status.step_seconds if status else None,
            "acceptance": estimates.acceptance(max(1, proposer.settings.lookahead)),
            "waited": dict(proposer.waited),
            "garbled_entries": proposer.garbled,
            "late_proposals": proposer.late,
            "fan_out": list(proposer.counts),
            "pages_free": self.scheduler.pool.available,
            "running": len(self.scheduler.running),
        }
