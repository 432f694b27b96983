"""A small language model as the draft, usually with a short head.

A head over some of the vocabulary costs a fraction of the bytes and loses little (only the draft may be approximate,
DESIGN section 6); `shortlist.py` says which tokens it holds, and follows what is said. Must not know: rounds, outcomes.
Tests: tests/conformance/test_drafters.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from saguaro.drafting.drafters.base import Drafter
from saguaro.drafting.shortlist import ColumnBook
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.causal_lm import CausalLM


class LanguageModelDrafter(Drafter):
    """A causal language model behind the promise; its head may be a short one."""

    def __init__(self, model: CausalLM, *, num_slots: int, page_size: int, max_positions: int) -> None:
        self.num_slots = num_slots
        self.max_positions = max_positions
        self._pool = KVPool(model.config, num_slots, model.pool_dtype)
        self._runner = Runner(model, self._pool, page_size)
        self._head = head = model.short_head
        self.vocab = model.config.vocab if head is None else len(head.ids_S)
        self._book = None
        if head is not None:
            self._book = ColumnBook(head.ids_S.tolist(), head.fixed, vocab=model.config.vocab)

    @property
    def token_ids(self) -> torch.Tensor | None:
        """Of the short head."""
        return None if self._head is None else self._head.ids_S

    def expect(self, tokens: Iterable[int]) -> None:
        """Columns that have not been needed for longest make room."""
        if self._book is None or self._head is None:
            return
        changed = self._book.expect(tokens)
        if changed:
            self._head.replace(list(changed), list(changed.values()))

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        return self._runner.run(spans, interrupt=interrupt)

    def move(self, sources: list[int], targets: list[int]) -> None:
        self._pool.move(sources, targets)
