"""Who runs what in the next step (DESIGN D5): first come, first served, under limits on rows, tokens and pages.

    waiting ──admit──▶ filling ──last token──▶ decoding ──▶ gone
       ▲                  │                       │
       └──── preempted ───┴───────────────────────┘     keeps what it generated; its keys and values are computed again

A row takes the pages of its tokens when it is admitted and one more whenever it grows over the edge of the last. When
there is none, the newest row gives its pages up and waits at the head of the queue: an older row never waits for a
younger one, so the oldest always ends. Proposals take pages only as long as some are left for everybody's next token.
Must not know: models, the draft, tokens' meaning, clocks. Tests: tests/engine/test_scheduler.py.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from saguaro.engine.sequence import Sequence, Submission
from saguaro.errors import CapacityError, RequestRefused
from saguaro.paging import PagePool, PageTable, PrefixCache


@dataclass(frozen=True, slots=True)
class Limits:
    """What may run at once.

    Args:
        rows: running rows.
        length: prompt and output of one row together, in tokens.
        step: tokens of all rows in one step.
        chunk: prompt tokens in one step.
        waiting: requests that may wait; None is no limit.
    """

    rows: int
    length: int
    step: int
    chunk: int
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """`count` tokens of a row, from the first that has no keys and values on; with `ends` its proposal follows them."""

    sequence: Sequence
    count: int
    ends: bool


@dataclass(slots=True)
class Step:
    """What happens next, in this order: rows lose their pages, rows join (slots are copied for them), tokens run."""

    preempted: list[Sequence] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    copies: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)


class Scheduler:
    """Waiting and running rows of the target; `running` is in order of arrival. Of what a new row finds in the prefix
    cache the last `again` tokens run again, for a draft that needs more of them than their keys and values.
    """

    def __init__(self, pool: PagePool, limits: Limits, *, prefix_cache: bool = True) -> None:
        self.pool = pool
        self.limits = limits
        self.cache = PrefixCache(pool, enabled=prefix_cache)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.preemptions = 0
        self.again = 0
        self._free_rows = list(range(limits.rows - 1, -1, -1))

    # -- joining and leaving --------------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> None:
        """Queue a request.

        Raises:
            RequestRefused: when it could never run, or too many wait.
        """
        prompt, limit = len(submission.prompt), self.limits
        if not prompt:
            raise RequestRefused("the prompt is empty; give at least one token.")
        if prompt >= limit.length:
            raise RequestRefused(
                f"the prompt has {prompt} tokens; with max_model_len {limit.length} at most {limit.length - 1} fit."
            )
        most = min(prompt + submission.max_tokens, limit.length)
        if self.pool.pages_for(most) > self.pool.num_pages:
            raise RequestRefused(
                f"the request may grow to {most} tokens and there are pages for "
                f"{self.pool.num_pages * self.pool.page_size}; raise kv_memory, or lower max_tokens or the prompt."
            )
        queue = sum(not s.preemptions for s in self.waiting) - len(self._free_rows)
        if limit.waiting is not None and queue >= limit.waiting:
            raise RequestRefused(f"{queue} requests are waiting already (max_waiting); try again later.")
        self.waiting.append(Sequence(submission, PageTable(self.pool), limit.length))

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self.waiting or self.running)

    def leave(self, s: Sequence, *, keep: bool = True) -> None:
        """A running row ends: its pages and its place are free. With `keep` others may find what it computed."""
        self.running.remove(s)
        if keep:
            self.cache.file(s.table, s.tokens[: s.kv], s.filed, whole=True)
        s.table.release()
        self._free_rows.append(s.row)
        s.row = -1

    def find(self, request: int) -> Sequence | None:
        """The running row of a request."""
        return next((s for s in self.running if s.request == request), None)

    def cancel(self, request: int) -> bool:
        """Remove a waiting request; False when it is not waiting."""
        for s in self.waiting:
            if s.request == request:
                self.waiting.remove(s)
                return True
        return False

    # -- the next step --------------------------------------------------------------------------------------------

    def next(self, beside: int) -> Step:
        """Plan a step in which at most `beside` prompt tokens run beside rows that decode."""
        step = Step()
        self._make_room(step)
        self._admit(step)
        runnable = [s for s in self.running if s.table.capacity >= len(s.tokens)]
        decoding = [s for s in runnable if not s.filling]
        left = self.limits.step - sum(1 + len(s.proposed.tokens) for s in decoding)
        left = min(left, beside if decoding else self.limits.chunk)
        for s in runnable:
            missing = len(s.tokens) - s.kv
            count = min(missing, left) if s.filling else missing
            if count > 0:
                step.work.append(Work(s, count, ends=count == missing))
            left -= count if s.filling else 0
        return step

    def _make_room(self, step: Step) -> None:
        """Room for everybody's next token, the oldest first."""
        for s in list(self.running):
            while s.row >= 0 and not self._grow(s, len(s.tokens)):
                victim = self.running[-1]
                if victim is s:
                    break  # the newest row waits where it is
                self._preempt(victim)
                step.preempted.append(victim)

    def _preempt(self, s: Sequence) -> None:
        self.leave(s)
        s.restart()
        self.preemptions += 1
        self.waiting.appendleft(s)

    def _admit(self, step: Step) -> None:
        while self.waiting and self._free_rows:
            s = self.waiting[0]
            if self._soon_known(s):
                return
            known = s.tokens if s.reuses_prefix else ()
            reused = self.cache.begin(s.table, known, room=len(s.tokens), spare=len(self.running))
            if reused is None:
                return
            self.waiting.popleft()
            s.row = self._free_rows.pop()
            s.kv, s.filed = max(0, reused.length - self.again), reused.length // self.pool.page_size
            if not s.preemptions:
                s.cached_tokens = s.kv
            if reused.sources:
                step.copies.append((reused.sources, reused.targets))
            self.running.append(s)
            step.admitted.append(s)

    def _soon_known(self, s: Sequence) -> bool:
        """Whether a row that is filling now will leave a page more of this one's beginning than is known already."""
        fillers = [r for r in self.running if r.filling]
        if not fillers or not self.cache.enabled or not s.reuses_prefix:
            return False
        need = self.cache.match(s.tokens) + self.pool.page_size
        head = s.tokens[:need]
        return len(s.tokens) > need and any(r.tokens[:need] == head for r in fillers)

    def _grow(self, s: Sequence, length: int) -> bool:
        try:
            s.table.ensure(length)
        except CapacityError:
            return False
        return True

    # -- after a step ---------------------------------------------------------------------------------------------

    def file(self, s: Sequence) -> None:
        """Let others find the pages that a row has filled."""
        if s.kv // self.pool.page_size > s.filed:
            s.filed = self.cache.file(s.table, s.tokens[: s.kv], s.filed)

    def fit(self, s: Sequence, lookahead: int) -> int:
        """How many tokens of a proposal there is room for, in pages and in a step; takes the pages."""
        others = len(self.running) - 1
        wanted = min(lookahead, s.room - 1, self.limits.step // len(self.running) - 1)
        needed = self.pool.pages_for(len(s.tokens) + wanted) - len(s.table.pages)
        if wanted > 0 and 0 < needed <= self.pool.available - others:
            s.table.ensure(len(s.tokens) + wanted)
        return max(0, min(wanted, s.table.capacity - len(s.tokens)))
