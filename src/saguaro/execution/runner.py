"""Runs a model over spans: pack, forward, logits of the wanted rows.

Must not know: requests, rounds, who drafts for whom. Tests: tests/execution/test_runner.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from saguaro.execution.batch import Span, pack
from saguaro.execution.kv_pool import KVPool
from saguaro.models.causal_lm import CausalLM


class Runner:
    """A model with its keys and values."""

    def __init__(self, model: CausalLM, pool: KVPool, page_size: int) -> None:
        self.model = model
        self.pool = pool
        self.page_size = page_size

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        """One forward pass.

        Args:
            spans: what to run; keys and values are written to their slots.
            interrupt: asked between two layers; True gives the pass up.

        Returns:
            Logits (W, V) float32 of the wanted tokens in span order, or None when the pass was given up. With no
            wanted token the tensor is empty.
        """
        batch = pack(spans, self.page_size)
        hidden_TH = self.model.forward(batch.tokens_T, batch.plan, self.pool, interrupt=interrupt)
        if hidden_TH is None:
            return None
        if batch.wanted_W.numel() == 0:
            return torch.empty(0, 0)
        if batch.wanted_W.numel() != batch.tokens_T.numel():
            hidden_TH = hidden_TH[batch.wanted_W]
        return self.model.logits(hidden_TH)
