"""Both models of a plan in this process, reading texts that exist already.

Must not know: what the logits are for. Tests: tests/calibrate/test_laws.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from saguaro.engine.build import build_drafter, load
from saguaro.engine.resolve import Plan
from saguaro.errors import CapacityError
from saguaro.execution.batch import Span
from saguaro.execution.kv_pool import KVPool
from saguaro.execution.runner import Runner

CHUNK = 128


class Reader:
    """Runs one model over one text at a time. Its keys and values are those of the last text.

    Args:
        run: spans to logits.
        slots: tokens that there is room for.
        page_size: of the page tables.
    """

    def __init__(self, run: Callable[[Sequence[Span]], torch.Tensor | None], *, slots: int, page_size: int) -> None:
        self._run, self._slots, self._page_size = run, slots, page_size

    def __call__(self, ids: Sequence[int], wanted: int) -> torch.Tensor:
        """Logits (R, V) after each of the last `wanted` tokens.

        Raises:
            CapacityError: when the text is longer than there is room.
        """
        if len(ids) > self._slots:
            raise CapacityError(f"a text of {len(ids)} tokens is read with room for {self._slots}.")
        pages = list(range(-(-len(ids) // self._page_size)))
        split = len(ids) - wanted
        found = []
        for first in [*range(0, split, CHUNK), *range(split, len(ids), CHUNK)]:
            last = min(first + CHUNK, split if first < split else len(ids))
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
    return tuple(Reader(each.run, slots=pages * size, page_size=size) for each in (runner, drafter))  # type: ignore[return-value]
