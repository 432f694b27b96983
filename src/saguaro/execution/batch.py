"""Spans of tokens packed into one call of the model.

A span is a run of consecutive tokens of one row: a piece of a prompt (prefill), the tokens of a verification
(extend), or one token of a branch (tree, DESIGN D7), whose keys live in loose slots and which sees the first `shared`
positions of its row and then its own slots. A span may end in a proposal tree: no mask is made for it either, since
each node sees whole blocks of keys through the page table and the rest of its path through own slots. Letters: T packed
tokens, R rows with a page table, P pages, S own slots.
Must not know: models, logits, policies. Tests: tests/execution/test_batch.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from saguaro.attention.base import KEY_BLOCK, AttentionPlan


@dataclass(slots=True)
class Span:
    """Consecutive tokens of one row.

    Args:
        tokens: their ids.
        start: position of the first.
        pages: the row's page table, covering all shared positions.
        slots: where each token's key and value go.
        wanted: logits are needed for the last `wanted` tokens.
        shared: tree mode: positions seen through the page table; None in extend mode, where each token sees all
            positions up to its own.
        own: tree mode: slots of the branch's earlier tokens, in order.
        taps: of a draft that reads hidden states of its target: those of the tokens before the first tokens of the span
            (N, W). Tokens behind them go on from the draft's own states.
        parents: the last tokens are a proposal tree (`algorithm/proposal_tree.py`): the parent of each, 0 for the
            token before the tree. `slots` of its trunk (nodes that follow each other) are those of their positions.
    """

    tokens: Sequence[int]
    start: int
    pages: Sequence[int]
    slots: Sequence[int]
    wanted: int = 1
    shared: int | None = None
    own: Sequence[int] = field(default_factory=tuple)
    taps: torch.Tensor | None = None
    parents: Sequence[int] = field(default_factory=tuple)


@dataclass(slots=True)
class Batch:
    """Packed spans: what the model needs, and which of its rows are wanted, in span order."""

    tokens_T: torch.Tensor
    plan: AttentionPlan
    wanted_W: torch.Tensor


def pack(spans: Sequence[Span], page_size: int) -> Batch:
    """Pack spans into one call. All tensors are int32 on the CPU but `tokens_T` and `wanted_W`, which are int64."""
    lengths = [len(span.tokens) for span in spans]
    total = sum(lengths)
    tokens = np.empty(total, dtype=np.int64)
    positions, slots, rows, shared, counts = (np.zeros(total, dtype=np.int32) for _ in range(5))
    tables = np.zeros((len(spans), max(1, max(len(span.pages) for span in spans))), dtype=np.int32)
    aside = [list(_off_trunk(span, page_size)) if span.parents else [] for span in spans]
    deepest = max((len(span.own) + 1 for span in spans if span.shared is not None), default=0)
    deepest = max([deepest, *(len(path) for nodes in aside for _, _, path in nodes)])
    own = np.zeros((total, max(1, deepest)), dtype=np.int32)
    wanted: list[int] = []
    at = 0
    for row, (span, length) in enumerate(zip(spans, lengths, strict=True)):
        part = slice(at, at + length)
        tokens[part] = span.tokens
        positions[part] = np.arange(span.start, span.start + length)
        slots[part] = span.slots
        rows[part] = row
        tables[row, : len(span.pages)] = span.pages
        if span.shared is None:
            shared[part] = np.arange(span.start + 1, span.start + length + 1)
        else:
            assert length == 1, "a tree span holds one token"
            shared[at] = span.shared
            counts[at] = len(span.own) + 1
            own[at, : len(span.own)] = span.own
            own[at, len(span.own)] = span.slots[0]
        for index, seen, path in aside[row]:
            positions[at + index] = seen + len(path) - 1
            shared[at + index], counts[at + index] = seen, len(path)
            own[at + index, : len(path)] = path
        wanted.extend(range(at + length - span.wanted, at + length))
        at += length
    plan = AttentionPlan(
        positions_T=torch.from_numpy(positions),
        slots_T=torch.from_numpy(slots),
        row_T=torch.from_numpy(rows),
        tables_RP=torch.from_numpy(tables),
        shared_T=torch.from_numpy(shared),
        own_TS=torch.from_numpy(own),
        own_count_T=torch.from_numpy(counts),
        page_size=page_size,
    )
    return Batch(torch.from_numpy(tokens), plan, torch.tensor(wanted, dtype=torch.int64))


def _off_trunk(span: Span, page_size: int) -> Iterator[tuple[int, int, list[int]]]:
    """Of each node that is not on the trunk: its index in the span, the leading positions that it sees through the page
    table, and the slots of all positions after these on its path.

    The first number is a multiple of KEY_BLOCK, so that a node is computed bit for bit as if its path were the text.
    """
    first = len(span.tokens) - len(span.parents)
    paths: dict[int, tuple[int, list[int]]] = {}
    trunk = 0
    for node, parent in enumerate(span.parents, start=1):
        if parent == node - 1 == trunk:
            trunk = node
            continue
        if parent <= trunk:
            known = span.start + first + parent
            seen = known - known % KEY_BLOCK
            path = [span.pages[p // page_size] * page_size + p % page_size for p in range(seen, known)]
        else:
            seen, path = paths[parent]
        paths[node] = seen, [*path, span.slots[first + node - 1]]
        yield first + node - 1, *paths[node]
