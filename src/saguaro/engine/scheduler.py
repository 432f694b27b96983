"""Who runs: first come, first served, as long as rows and pages last.

A row takes pages for its whole possible length when it is admitted, so that no running row can ever be short. Must not
know: models, the draft, tokens' meaning. Tests: tests/engine/test_scheduler.py.
"""

from __future__ import annotations

from collections import deque

from saguaro.engine.sequence import Sequence, Submission
from saguaro.errors import RequestRefused
from saguaro.paging import PagePool, PageTable


class Scheduler:
    """Waiting and running rows of the target."""

    def __init__(self, pool: PagePool, *, max_batch: int, max_model_len: int) -> None:
        self.pool = pool
        self.max_model_len = max_model_len
        self._waiting: deque[Submission] = deque()
        self._free_rows = list(range(max_batch - 1, -1, -1))
        self.running: list[Sequence] = []

    def submit(self, submission: Submission) -> None:
        """Queue a request.

        Raises:
            RequestRefused: when it could never run.
        """
        if not submission.prompt:
            raise RequestRefused("the prompt is empty; give at least one token.")
        if len(submission.prompt) >= self.max_model_len:
            raise RequestRefused(
                f"the prompt has {len(submission.prompt)} tokens; with max_model_len {self.max_model_len} at most "
                f"{self.max_model_len - 1} fit."
            )
        if self.pool.pages_for(self._most(submission)) > self.pool.num_pages:
            raise RequestRefused("the request needs more memory than there is; raise kv memory or shorten it.")
        self._waiting.append(submission)

    def _most(self, submission: Submission) -> int:
        return min(len(submission.prompt) + submission.max_tokens, self.max_model_len)

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self._waiting or self.running)

    def admit(self) -> list[Sequence]:
        """Move waiting requests into free rows, in order of arrival."""
        admitted = []
        while self._waiting and self._free_rows:
            submission = self._waiting[0]
            if self.pool.pages_for(self._most(submission)) > self.pool.available:
                break
            self._waiting.popleft()
            table = PageTable(self.pool)
            table.ensure(self._most(submission))
            sequence = Sequence(submission, self._free_rows.pop(), table, self.max_model_len)
            sequence.tokens = list(submission.prompt)
            self.running.append(sequence)
            admitted.append(sequence)
        return admitted

    def leave(self, sequence: Sequence) -> None:
        """A row ends: its pages and its place are free."""
        self.running.remove(sequence)
        sequence.table.release()
        self._free_rows.append(sequence.row)

    def find(self, request: int) -> Sequence | None:
        """The running row of a request."""
        return next((s for s in self.running if s.request == request), None)

    def cancel(self, request: int) -> bool:
        """Remove a waiting request; False when it is not waiting."""
        for submission in self._waiting:
            if submission.request == request:
                self._waiting.remove(submission)
                return True
        return False
