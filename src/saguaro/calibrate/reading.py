"""Both models of a plan in this process, reading texts that exist already.

Must not know: what the logits are for. Tests: tests/calibrate/test_laws.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from saguaro.drafting.drafters.base import Drafter
from saguaro.engine.build import build_drafter, load
from saguaro.engine.resolve import Plan
from saguaro.errors import CapacityError
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner

CHUNK = 128
PIECE = 32
"""Tokens of an output that are read at once, so that what a draft expects follows the text as it does in an engine."""


class Reader:
    """Runs one model over one text at a time. Its keys and values are those of the last text.

    Args:
        run: spans to logits.
        slots: tokens that there is room for.
        page_size: of the page tables.
        expect: told of the tokens that come before each piece.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Span]], torch.Tensor | None],
        *,
        slots: int,
        page_size: int,
        expect: Callable[[Sequence[int]], None] = lambda tokens: None,
    ) -> None:
        self._run, self._slots, self._page_size, self._expect = run, slots, page_size, expect

    def __call__(self, ids: Sequence[int], wanted: int) -> torch.Tensor:
        """Logits (R, V) after each of the last `wanted` tokens.

        Raises:
            CapacityError: when the text is longer than there is room.
        """
        if len(ids) > self._slots:
            raise CapacityError(f"a text of {len(ids)} tokens is read with room for {self._slots}.")
        pages = list(range(-(-len(ids) // self._page_size)))
        split = len(ids) - wanted
        found, said = [], 0
        for first in [*range(0, split, CHUNK), *range(split, len(ids), PIECE)]:
            last = min(first + CHUNK, split) if first < split else min(first + PIECE, len(ids))
            if last > split:
                self._expect(ids[said : first + 1])
                said = first + 1
            count = 0 if last <= split else last - first
            span = Span(ids[first:last], first, pages, list(range(first, last)), wanted=count)
            logits_RV = self._run([span])
            assert logits_RV is not None
            if count:
                found.append(logits_RV)
        return torch.cat(found)


def open_readers(plan: Plan, longest: int) -> tuple[Reader, Reader]:
    """Readers of target and draft for texts of up to `longest` tokens; both models are loaded."""
    assert plan.draft is not None
    size = plan.config.page_size
    pages = -(-longest // size)
    model = load(plan.target, plan)
    runner = Runner(model, KVPool(model.config, pages * size, model.pool_dtype), size)
    drafter = build_drafter(replace(plan, draft=replace(plan.draft, num_pages=pages)))
    slots = pages * size
    return (
        Reader(runner.run, slots=slots, page_size=size),
        Reader(whole_rows(drafter, model.config.vocab), slots=slots, page_size=size, expect=drafter.expect),
    )


def whole_rows(drafter: Drafter, vocab: int) -> Callable[[Sequence[Span]], torch.Tensor | None]:
    """A drafter that scores every id: those that it does not know have -inf."""

    def run(spans: Sequence[Span]) -> torch.Tensor | None:
        logits_RC = drafter.run(spans)
        ids_C = drafter.token_ids
        if logits_RC is None or ids_C is None or not len(logits_RC):
            return logits_RC
        logits_RV = torch.full((len(logits_RC), vocab), float("-inf"))
        logits_RV[:, ids_C.long()] = logits_RC
        return logits_RV

    return run
