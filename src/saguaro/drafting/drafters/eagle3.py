"""An EAGLE-3 head as the draft: it reads taps of its target where they are there, and its own states where not.

The pair of token p (its embedding, and the hidden state of token p - 1) has the slot and the rotary position p - 1: the
first token of a row has none. Slots are as the spans say; positions are shifted here. Beside keys and values each slot
keeps the pair's state, from which the next token goes on when there are no taps for it (the paper's Figure 9), so that
whatever moves slots moves states. Must not know: rounds, outcomes, where taps come from.
Tests: tests/conformance/test_drafters.py, tests/drafting/test_eagle3.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from saguaro.drafting.drafters.base import Drafter
from saguaro.execution.batch import Span, pack
from saguaro.execution.kv_pool import KVPool
from saguaro.models.eagle3 import Eagle3Head


class Eagle3Drafter(Drafter):
    """A head behind the promise."""

    def __init__(self, model: Eagle3Head, *, num_slots: int, page_size: int, max_positions: int) -> None:
        self.num_slots = num_slots
        self.max_positions = max_positions
        self.vocab = model.config.head_rows
        self.tap_width = model.shape.tap_width
        self._model = model
        self._page_size = page_size
        self._pool = KVPool(model.config, num_slots, model.pool_dtype)
        self._states_SH = torch.zeros(num_slots, model.config.hidden, dtype=model.pool_dtype)

    @property
    def token_ids(self) -> torch.Tensor | None:
        """By the head's map."""
        return self._model.ids_D

    def run(self, spans: Sequence[Span], *, interrupt: Callable[[], bool] | None = None) -> torch.Tensor | None:
        pairs = [_shifted(span) for span in spans]
        batch = pack(pairs, self._page_size)
        hidden_TH = self._hidden(spans, pairs)
        x_TH = self._model.forward(batch.tokens_T, hidden_TH, batch.plan, self._pool, interrupt=interrupt)
        if x_TH is None:
            return None
        self._states_SH[batch.plan.slots_T.long()] = self._model.state(x_TH).to(self._states_SH.dtype)
        if batch.wanted_W.numel() == 0:
            return torch.empty(0, 0)
        return self._model.logits(x_TH[batch.wanted_W])

    def move(self, sources: list[int], targets: list[int]) -> None:
        self._pool.move(sources, targets)
        if sources:
            self._states_SH[targets] = self._states_SH[sources]

    def _hidden(self, spans: Sequence[Span], pairs: Sequence[Span]) -> torch.Tensor:
        """The hidden state that each token is paired with (T, H) float32: fused taps, a state that was kept, or zeros
        where there is neither.
        """
        before = [slot for span, pair in zip(spans, pairs, strict=True) for slot in self._slots_before(span, pair)]
        before_T = torch.tensor(before)
        hidden_TH = self._states_SH[before_T.clamp(min=0)].float()
        hidden_TH[before_T < 0] = 0.0
        at = 0
        taps: list[torch.Tensor] = []
        places: list[int] = []
        for span in spans:
            if span.taps is not None and len(span.taps):
                taps.append(span.taps)
                places += range(at, at + len(span.taps))
            at += len(span.tokens)
        if taps:
            hidden_TH[places] = self._model.fuse(torch.cat(taps))
        return hidden_TH

    def _slots_before(self, span: Span, pair: Span) -> list[int]:
        """Where the state of the token before each token is; -1 before the first pair of a row."""
        first = -1
        if pair.own:
            first = pair.own[-1]
        elif pair.start:
            page, offset = divmod(pair.start - 1, self._page_size)
            first = pair.pages[page] * self._page_size + offset
        return [first, *span.slots[:-1]]


def _shifted(span: Span) -> Span:
    """The span of the pairs. A first token, which has none, is only met when steps are measured."""
    shared = None if span.shared is None else span.shared - 1
    return replace(span, start=max(0, span.start - 1), shared=shared)
