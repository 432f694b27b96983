"""First come, first served; pages that come back; preemption that loses nothing. The model is a made-up one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from saguaro.algorithm.options import Sampling
from saguaro.engine.scheduler import Limits, Scheduler
from saguaro.engine.sequence import Proposed, Sequence, Submission
from saguaro.errors import RequestRefused
from saguaro.paging import PagePool

SIZE = 4


def submission(number: int, length: int = 3, max_tokens: int = 5, first: int = 1) -> Submission:
    prompt = tuple(range(first, length + first))
    return Submission(number, prompt, Sampling(temperature=0.0), max_tokens, frozenset())


def scheduler(
    pages: int = 8, rows: int = 2, *, step: int = 64, chunk: int = 8, waiting: int | None = None
) -> Scheduler:
    return Scheduler(PagePool(pages, SIZE), Limits(rows, 32, step, chunk, waiting))


def play(s: Scheduler, *, lookahead: int = 0, accepted: int = 0, beside: int = 2) -> list[Sequence]:
    """One step with a model that accepts so many tokens; rows that end leave. Returns those."""
    step = s.next(beside)
    assert len(s.running) <= s.limits.rows
    assert sum(w.count + len(w.sequence.proposed.tokens) * w.ends for w in step.work) <= s.limits.step
    ended = []
    for w in step.work:
        row = w.sequence
        assert row.table.capacity >= row.kv + w.count + (len(row.proposed.tokens) if w.ends else 0)
        if not w.ends:
            row.kv += w.count
            s.file(row)
            continue
        row.commit([7] * (1 + min(accepted, len(row.proposed.tokens))))
        row.kv = len(row.tokens) - 1
        s.file(row)
        if row.finish is not None:
            s.leave(row)
            ended.append(row)
            continue
        row.fits = s.fit(row, lookahead)
        row.proposed = Proposed((7,) * max(0, row.limit(lookahead)))
    return ended


def test_R05_rows_are_limited_and_order_is_kept() -> None:
    s = scheduler()
    for number in range(6):
        s.submit(submission(number, first=10 * number))
    order: list[int] = []
    while s.busy:
        order += [row.request for row in play(s)]
    assert order == list(range(6))
    assert s.pool.used == 0


@pytest.mark.parametrize(("length", "words"), [(0, "empty"), (32, "at most 31"), (40, "at most 31")])
def test_what_can_never_run_is_refused(length: int, words: str) -> None:
    with pytest.raises(RequestRefused, match=words):
        scheduler().submit(submission(1, length=length))


def test_what_needs_more_pages_than_there_are_is_refused() -> None:
    with pytest.raises(RequestRefused, match="kv_memory"):
        scheduler(pages=2).submit(submission(1, length=5, max_tokens=20))


def test_too_many_waiting_are_refused() -> None:
    """Those for whom a place is free do not wait."""
    s = scheduler(waiting=1, rows=2)
    for number in range(3):
        s.submit(submission(number))
    with pytest.raises(RequestRefused, match="max_waiting"):
        s.submit(submission(3))


def test_a_waiting_request_can_be_cancelled() -> None:
    s = scheduler()
    s.submit(submission(1))
    assert s.cancel(1)
    assert not s.cancel(1)
    assert not s.busy


def test_a_long_prompt_neither_starves_others_nor_is_starved() -> None:
    """Decoding rows run in every step; the prompt gets its piece in every step; who came later waits for it."""
    s = scheduler(pages=40, rows=3)
    s.submit(submission(1, length=2, max_tokens=20))
    play(s)
    s.submit(submission(2, length=24, max_tokens=1, first=50))
    s.submit(submission(3, length=2, max_tokens=1, first=90))
    gone: list[int] = []
    for _ in range(12):
        step = s.next(2)
        assert step.work[0].sequence.request == 1
        assert step.work[1].sequence.request == 2
        assert step.work[1].count == 2
        gone += [row.request for row in play(s)]
    assert gone == [2]
    assert [row.request for row in play(s)] == [3]


def test_the_newest_row_gives_way_and_loses_nothing() -> None:  # R02
    s = scheduler(pages=5, rows=2)
    s.submit(submission(1, length=7, max_tokens=9))
    s.submit(submission(2, length=7, max_tokens=9, first=20))
    ended: list[Sequence] = []
    while s.busy:
        ended += play(s, beside=8)
    assert [row.request for row in ended] == [1, 2]
    assert s.preemptions > 0
    assert ended[1].preemptions == s.preemptions
    for row in ended:
        assert row.tokens[:7] == list(row.submission.prompt)
        assert len(row.tokens) == 16
    assert s.pool.used == 0


def test_R03_a_row_near_its_limit_is_not_preempted() -> None:
    s = scheduler(pages=16, rows=2)
    s.submit(submission(1, length=28, max_tokens=100, first=0))
    s.submit(submission(2, length=3, max_tokens=20, first=40))
    ended: list[Sequence] = []
    while s.busy:
        ended += play(s, lookahead=4, accepted=2, beside=8)
    assert s.preemptions == 0
    assert {row.request: row.finish for row in ended} == {1: "length", 2: "length"}
    assert len(next(row for row in ended if row.request == 1).tokens) == 32


def test_proposals_shrink_before_anybody_is_preempted() -> None:
    s = scheduler(pages=4, rows=2)
    s.submit(submission(1, length=3, max_tokens=4))
    s.submit(submission(2, length=3, max_tokens=4, first=20))
    seen = set()
    while s.busy:
        play(s, lookahead=8, accepted=8, beside=8)
        seen |= {len(row.proposed.tokens) for row in s.running}
    assert s.preemptions == 0
    assert max(seen) < 8


def test_tokens_of_a_step_are_shared() -> None:
    s = scheduler(pages=64, rows=4, step=8)
    for number in range(4):
        s.submit(submission(number, first=10 * number, max_tokens=12))
    while s.busy:
        play(s, lookahead=8, accepted=1)
    assert s.pool.used == 0


def test_equal_prompts_are_filled_once() -> None:
    s = scheduler(pages=64, rows=4)
    for number in range(3):
        s.submit(submission(number, length=21, max_tokens=2))
    filled = 0
    ended: list[Sequence] = []
    while s.busy:
        before = {id(row): row.kv for row in s.running}
        ended += play(s, beside=8)
        filled += sum(row.kv - before.get(id(row), row.kv) for row in s.running)
    assert sorted(row.cached_tokens for row in ended) == [0, 20, 20]


class Busy(RuleBasedStateMachine):
    """Random requests, acceptance, aborts: everybody ends once, in the right length; no page is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.s = scheduler(pages=9, rows=3, step=24, chunk=6)
        self.open: dict[int, Submission] = {}
        self.number = 0

    @rule(length=st.integers(1, 20), tokens=st.integers(1, 12), first=st.integers(0, 1))
    def submit(self, length: int, tokens: int, first: int) -> None:
        self.number += 1
        one = submission(self.number, length, tokens, first=first)
        self.s.submit(one)
        self.open[self.number] = one

    @rule(lookahead=st.integers(0, 6), accepted=st.integers(0, 6), beside=st.integers(1, 6))
    def run(self, lookahead: int, accepted: int, beside: int) -> None:
        if not self.s.busy:
            return
        oldest = min(self.open)
        before = self.progress(oldest)
        for row in play(self.s, lookahead=lookahead, accepted=accepted, beside=beside):
            one = self.open.pop(row.request)
            assert row.tokens[: len(one.prompt)] == list(one.prompt)
            assert len(row.tokens) == min(len(one.prompt) + one.max_tokens, 32)
        assert oldest not in self.open or self.progress(oldest) > before

    def progress(self, request: int) -> tuple[int, int]:
        row = self.s.find(request)
        return (-1, -1) if row is None else (len(row.tokens), row.kv)

    @rule(pick=st.integers(0, 100))
    def abort(self, pick: int) -> None:
        if not self.open:
            return
        request = sorted(self.open)[pick % len(self.open)]
        if not self.s.cancel(request):
            row = self.s.find(request)
            assert row is not None
            self.s.leave(row)
        del self.open[request]

    @invariant()
    def pages_add_up(self) -> None:
        used = {page for row in self.s.running for page in row.table.pages}
        assert self.s.pool.used == len(used)
        assert {row.request for row in [*self.s.running, *self.s.waiting]} == set(self.open)
        assert [row.request for row in self.s.running] == sorted(row.request for row in self.s.running)

    def teardown(self) -> None:
        for _ in range(2000):
            if not self.s.busy:
                break
            self.run(random.Random(0).randrange(4), 2, 3)
        assert not self.open
        assert self.s.pool.used == 0


TestBusy = Busy.TestCase
TestBusy.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=12))
def test_everybody_runs_once_and_pages_return(sizes: list[tuple[int, int]]) -> None:
    s = scheduler()
    for number, (length, tokens) in enumerate(sizes):
        s.submit(submission(number, length, tokens))
    seen: list[int] = []
    while s.busy:
        seen += [row.request for row in play(s)]
    assert sorted(seen) == list(range(len(sizes)))
    assert s.pool.used == 0
