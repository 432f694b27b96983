"""A small language model as the draft, with a shortlist of the vocabulary for its head.

Byte-level vocabularies number their tokens by merge rank, so the first ids are the frequent ones: a head over the first
`shortlist` ids costs a fraction of the bytes and loses little (only the draft may be approximate, DESIGN section 6).
Must not know: rounds, outcomes. Tests: tests/conformance/test_drafters.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from saguaro.drafting.drafters.base import Drafter
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner
from saguaro.models.causal_lm import CausalLM


class LanguageModelDrafter(Drafter):
    """A causal language model behind the promise; its head may keep the first ids of the vocabulary only."""

    def __init__(self, model: CausalLM, *, num_slots: int, page_size: int, max_positions: int) -> None:
        self.num_slots = num_slots
        self.max_positions = max_positions
        self._pool = KVPool(model.config, num_slots, model.pool_dtype)
        self._runner = Runner(model, self._pool, page_size)
        self.vocab = model.config.vocab if model.head_ids_S is None else len(model.head_ids_S)

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        return self._runner.run(spans, interrupt=interrupt)

    def move(self, sources: list[int], targets: list[int]) -> None:
        self._pool.move(sources, targets)
