"""The speculator (Algorithm 1, lines 14-26): while the target verifies, prepare an answer for each likely outcome.

One step is one pass of the draft model over everything that is due, for all rows at once: tokens of the tail that have
no keys and values yet (prefill, catching up, the proposal's last token), and one token of each branch. Each token drawn
is pushed to the target at once (DESIGN D3). News is read before each step and, between two layers, only to give up a
step of which no row matters any more. The draft never imports the target. Tests: tests/engine/test_draft.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from saguaro.algorithm.odds import UNCALIBRATED, Calibration, Guesses
from saguaro.algorithm.options import Sampling
from saguaro.algorithm.rounds import EndedRound
from saguaro.drafting.drafters.base import Drafter
from saguaro.drafting.drawer import Drawer, Law
from saguaro.engine.activity import Activity
from saguaro.engine.adapt import measure_rows
from saguaro.engine.branch import Branch
from saguaro.engine.draft_beside import known_guesses, learn_beside, listed, look_beside, positions_chosen, start_after
from saguaro.engine.draft_growing import learn, plant, send_tree, siblings, tree_work
from saguaro.engine.draft_hints import Hints, add_hints
from saguaro.engine.draft_row import DraftRow
from saguaro.engine.draft_work import Work, branch_work, due_at, outdated, tail_work, worth_running
from saguaro.engine.predicting import Predictor
from saguaro.engine.publishing import PENDING_INDEX, Publisher
from saguaro.engine.trace import Ring
from saguaro.errors import ProtocolError
from saguaro.execution.batch import Span
from saguaro.execution.sampler import Draw, edit_rows_
from saguaro.models.grammar import Follower, Grammars
from saguaro.paging import PagePool, PrefixCache
from saguaro.protocol import messages as protocol
from saguaro.protocol.messages import Admit, Configure, Decided, Message, Release, Taken
from saguaro.protocol.session import Session
from saguaro.theory.evidence import RunningEvidence
from saguaro.theory.step_times import PassTimes
from saguaro.transport.base import DraftPort

LARGEST_TIMED = 32
LONGEST_COMPILATION = 60.0
BESIDE = 32
"""Tokens of prompts in a pass while other rows are being decoded, which wait for it."""


class DraftWorker:
    """The draft's side of all rows."""

    def __init__(
        self,
        drafter: Drafter,
        port: DraftPort,
        *,
        page_size: int,
        prefill_chunk: int,
        prefix_cache: bool = True,
        grammars: Grammars,
        evidence: RunningEvidence | None = None,
        calibration: Calibration = UNCALIBRATED,
        trace: Ring | None = None,
        observe: int = 0,
    ) -> None:
        self.drafter = drafter
        self.port = port
        self.grammars = grammars
        self.pool = PagePool(drafter.num_slots // page_size, page_size)
        self.cache = PrefixCache(self.pool, enabled=prefix_cache)
        self.prefill_chunk = prefill_chunk
        self.rows: dict[int, DraftRow] = {}
        self.session = Session()
        self.times = PassTimes()
        self.times_alone = PassTimes()
        self._last_count = 1
        self._queue: list[Message] = []
        self._in_flight: list[Work] = []
        self._predictor = Predictor(evidence or RunningEvidence(), observe=observe)
        self._calibration = calibration
        self._configure(Configure(0, False, False, 1.0, 0, False))
        self.activity = Activity(trace)
        self.hints = Hints()

    # -- one step -----------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Read the news and run one pass; False when there was nothing to run."""
        self._read_news()
        work = self._gather()
        if not work:
            self.activity.rested(bool(self.rows))
            return False
        began = time.monotonic()
        self._last_count = count = sum(len(w.span.tokens) for w in work)
        self.beat(began)
        self._in_flight = work
        logits = self.drafter.run([w.span for w in work], interrupt=self._useless)
        self._in_flight = []
        if logits is None:
            for w in work:
                if w.branch is not None:
                    w.row.reserve.give_back(list(w.span.slots))
            self.activity.stepped(began, work, given_up=True)
            return True
        self._absorb(work, logits)
        seconds = self.activity.stepped(began, work)
        if count <= LARGEST_TIMED:
            waited_for = all(w.row.waiting is not None for w in work)
            (self.times_alone if waited_for else self.times).took(count, seconds)
        self.beat()
        return True

    def beat(self, step_started: float = 0.0) -> None:
        """Tell the target that the draft lives, and how long its steps take."""
        single = self.times_alone.seconds(1) / self.hints.tokens_a_pass
        self.port.beat(step_started, self.times.seconds(self._last_count), single)

    def statistics(self) -> dict[str, Any]:
        """Counters, as plain values; `unspeculated` rows have no room here and go on without the draft."""
        return {
            "pages": self.pool.num_pages,
            "pages_used": self.pool.used,
            "pages_kept": self.pool.kept,
            "rows": len(self.rows),
            "unspeculated": sum(row.exhausted for row in self.rows.values()),
            "fan_out": list(self._predictor.full_counts(True)),
            "fan_out_after_miss": list(self._predictor.full_counts(False)),
            "hints": {"run": self.hints.run, "right": self.hints.right},
            **self.activity.summary(),
        }

    def observations(self) -> list[EndedRound]:
        """Rounds that have ended since the last call (option `observe`)."""
        self._read_news()
        return self._predictor.observer.take()

    def measure(self, rows: Sequence[int], *, beside: bool = False, **sizes: Any) -> dict[int, float]:
        """Seconds of a step of each count of tokens (`adapt.measure_rows`), ranking included; `beside` a target at
        work, or alone.
        """
        draw = Draw(Sampling(), 0)

        def step(span: Span) -> None:
            logits_WV = self.drafter.run([span])
            assert logits_WV is not None
            self._drawer.rank(logits_WV, [draw] * len(span.tokens), self.drafter.token_ids)

        times = measure_rows(step, self.pool, rows, **sizes)
        if beside or not self.times.known():
            self.times.measured(times)
        self.times_alone.measured(times)
        self.beat()  # measuring may have taken seconds
        return times

    def _read_news(self) -> None:
        messages, self._queue = self._queue + self.port.receive(), []
        began = time.monotonic()
        for message in messages:
            self.session.check(message)
            self._apply(message)
        self.activity.heard(began, messages)

    def _apply(self, message: Message) -> None:
        if isinstance(message, Configure):
            self._configure(message)
        elif isinstance(message, Admit):
            grammar = self._grammar(message)
            options = message.sampling
            self.drafter.expect([*(token for token, _ in options.logit_bias), *options.stop_ids, *message.tokens])
            row = DraftRow(message, self.cache, self.drafter.max_positions, grammar, self.drafter.tap_width)
            self.rows[message.request] = row
            self._tell(row)
        elif isinstance(message, protocol.Taps):
            row = self.rows[message.request]
            self.drafter.move(*row.hear(message, soon=self.prefill_chunk))
            self._tell(row)
        elif isinstance(message, Release):
            self.rows.pop(message.request).release()
        elif isinstance(message, Taken):
            row = self.rows[message.request]
            row.take(message)
            self._tell(row)  # all may have run already
        elif isinstance(message, Decided):
            row = self.rows[message.request]
            self._predictor.learn(row, message)
            sources, targets = row.decide(message)
            self.drafter.move(sources, targets)
            self.drafter.expect(row.tokens[message.base :])
            if row.waiting is not None:
                plant(row, self.settings)
                self._publisher.fill(row)
                self._publisher.answer(row)
        else:
            raise ProtocolError(f"{type(message).__name__} is no message to the draft.")

    def _grammar(self, message: Admit) -> Follower | None:
        """Where the row stands in its grammar. The first one takes seconds: the vocabulary is read."""
        if not message.sampling.grammar:
            return None
        self.port.beat(0.0, 0.0, 0.0, away=LONGEST_COMPILATION)
        grammar = self.grammars.follow(message.sampling, message.tokens[message.prompt_length :])
        self.beat()
        return grammar

    def _configure(self, message: Configure) -> None:
        self.settings = message
        self._publisher = Publisher(self.port, message)
        self._predictor.configure(message)
        self._drawer = Drawer(
            message,
            candidates=max(listed(message, self._predictor.candidates), siblings(message)),
            fan_out=self._predictor.full_counts,
            calibration=self._calibration,
        )
        for row in self.rows.values():
            row.drop_branches()
            if message.lookahead and len(row.missing()) > BESIDE:  # after a time of idleness nobody waits for it
                row.caught_up = False
                self._tell(row)

    def _useless(self) -> bool:
        """Between two layers: whether news arrived that makes every row of the step in flight pointless."""
        if not self.port.has_news():
            return False
        self._queue += self.port.receive()
        decided = {m.request: m for m in self._queue if isinstance(m, Decided)}
        gone = {m.request for m in self._queue if isinstance(m, Release)}
        return all(w.row.request in gone or outdated(w, decided.get(w.row.request)) for w in self._in_flight)

    # -- what is due --------------------------------------------------------------------------------------------

    def _gather(self) -> list[Work]:
        """Tails that are due, and as many branches as are worth their time, likeliest first.

        Over loopback all branches run: there the order of things must not depend on a clock.
        """
        if self.settings.lookahead == 0:
            return []
        work: list[Work] = []
        offered: list[tuple[DraftRow, Branch]] = []
        active = any(row.caught_up for row in self.rows.values())
        left = min(self.prefill_chunk, BESIDE) if active else self.prefill_chunk
        deepest = self.settings.lookahead
        for row in self.rows.values():
            if row.exhausted:
                row.recover(spare=len(self.rows))
            if not row.exhausted and not row.caught_up:
                self.drafter.move(*map(list, row.begin()))
            tail = None
            if not row.exhausted and (row.caught_up or left > 0):
                tail = tail_work(row, self.settings, self.prefill_chunk if row.caught_up else left)
            if row.exhausted:
                self._go_without(row)
                continue
            if tail is not None:
                work.append(tail)
                left -= 0 if row.caught_up else len(tail.span.tokens)
            work += tree_work(row, self.pool, self.settings, spare=len(self.rows), times=self.times_alone)
            send_tree(self.port, row, PENDING_INDEX, self.settings)
            if row.waiting is None and self.settings.branches:
                self._open_branches(row)
                offered += [(row, branch) for branch in row.growing if row.unfinished(branch, deepest)]
        if offered and not self.port.local and not self.settings.everything and self.times.known():
            offered = worth_running(offered, work, self.times, self.times_alone)
        for row, branch in offered:
            work += branch_work(row, branch, self.pool, spare=len(self.rows))
        waited_for = all(w.row.waiting is not None for w in work)
        times = None if self.port.local else self.times_alone if waited_for else self.times
        add_hints(self.hints, work, self.pool, deepest, spare=len(self.rows), times=times)
        return work

    def _open_branches(self, row: DraftRow) -> None:
        """Branches for the outcomes that the candidates known so far predict (Section 4.1)."""
        if self.settings.lookahead == 0:
            return
        depth = len(row.proposal)
        known = row.ranked[: min(len(row.ranked), depth + 1, max(0, row.kv - row.length + 1))]
        look_beside(row, known)
        count = len(known) + sum(bool(probe.ranked) for probe in row.beside.values())
        if count == row.predicted:
            return
        row.predicted = count
        most, likely = self._predictor.outcomes(row, known_guesses(row, known))
        for odds, outcome in likely:
            branch = row.open_branch(outcome, odds, most, withdraw=self.settings.everything)
            if branch is not None:
                start_after(row, outcome.accepted, branch)
                self._publisher.fill(row, branch)
                self._publisher.branch(row, branch, fresh=True)  # the key at least: the target can tell a miss by it
        self.port.set_chosen(row.row, row.round, positions_chosen(row, len(known)), len(row.branches))

    # -- what came out ------------------------------------------------------------------------------------------

    def _absorb(self, work: list[Work], logits_WV: torch.Tensor) -> None:
        draws, owners = [], []
        for w in work:
            last = w.span.start + len(w.span.tokens)
            for position in range(last - w.span.wanted + 1, last + 1):
                draws.append(w.row.draw(position, w.branch))
                owners.append((w, position))
        ids_V = self.drafter.token_ids
        edit_rows_(logits_WV, draws, ids_V)
        ranked = self._drawer.rank(logits_WV, draws, ids_V) if draws else []
        laws_WV = self._drawer.laws(logits_WV, draws) if draws else None
        for w in work:
            if w.branch is None:
                w.row.ran(len(w.span.tokens) - w.hinted)
            elif not w.hinted:
                w.branch.slots.append(w.span.slots[0])
        due = [due_at(w, position) if g.tokens else None for (w, position), g in zip(owners, ranked, strict=True)]
        drawn = self._drawer.draw(laws_WV, draws, ranked, due, ids_V)
        for (w, position), guesses, token_and_law in zip(owners, ranked, drawn, strict=True):
            if self.hints.hold(w, position):
                self._result(w, position, guesses, token_and_law)
                self.hints.learn(w, position)
        for row in {id(w.row): w.row for w in work}.values():
            send_tree(self.port, row, PENDING_INDEX, self.settings)
            self._tell(row)

    def _result(self, w: Work, position: int, guesses: Guesses, token_and_law: tuple[int, Law | None] | None) -> None:
        """What a row of a pass gave for a position."""
        if w.row.tree is not None:
            learn(w.row, w.branch, guesses)
        elif w.branch is not None and w.branch.probe:
            learn_beside(w.branch, guesses)
        elif w.branch is None:
            w.row.ranked.append(guesses)
            if token_and_law is not None:
                self._tail_token(w.row, guesses, *token_and_law)
            elif not guesses.tokens and position == w.row.length + len(w.row.proposal):
                self._publisher.give_up(w.row)
        elif token_and_law is not None:
            self._branch_token(w.row, w.branch, guesses, *token_and_law)
        else:
            w.branch.ended = True

    def _tail_token(self, row: DraftRow, guesses: Guesses, token: int, law: Law | None) -> None:
        assert row.waiting is not None
        row.proposal.append(token)
        row.guessed.append(guesses)
        if law is not None:
            row.laws.append(law)
        self._publisher.fill(row)
        self._publisher.proposal(row, row.waiting)

    def _go_without(self, row: DraftRow) -> None:
        """There is no room for a row: it holds no pages meanwhile, and the target neither asks nor waits for it."""
        row.let_go()
        self._tell(row)
        if row.waiting != row.given_up:
            self._publisher.give_up(row)

    def _branch_token(self, row: DraftRow, branch: Branch, guesses: Guesses, token: int, law: Law | None) -> None:
        branch.ranked.append(guesses)
        branch.tokens.append(token)
        branch.worth *= guesses.of(token)
        if law is not None:
            branch.laws.append(law)
        else:
            self._publisher.fill(row, branch)
            self._publisher.branch(row, branch, fresh=False)

    def _tell(self, row: DraftRow) -> None:
        self.port.set_row(
            row.row, row.request, caught_up=row.caught_up and not row.exhausted, full_round=self._full(row)
        )

    def _full(self, row: DraftRow) -> int:
        """The round whose branches are complete, or -1."""
        if row.exhausted or row.mute:
            return row.round
        if row.waiting is not None or not self.settings.branches:
            return -1
        if row.missing() or len(row.ranked) <= len(row.proposal):
            return -1
        self._open_branches(row)
        if row.short:
            return row.round
        growing = any(row.unfinished(branch, self.settings.lookahead) for branch in row.growing)
        return -1 if growing else row.round
