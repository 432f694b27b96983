"""A draft's own vocabulary: the tokens that the target's laws give most mass, and its map to the target's ids.

EAGLE-3's layout: `d2t` holds, for each row of the draft's head, target id - row. Rows are in rising order of id, stop
ids are always among them. Must not know: files, models. Tests: tests/training/test_corpus.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


def likeliest(mass_V: torch.Tensor, size: int, *, always: Iterable[int]) -> torch.Tensor:
    """Target ids (N) int64, rising: `always`, then those of most mass; of equal ones the lower id."""
    vocab = len(mass_V)
    fixed = sorted({token for token in always if 0 <= token < vocab})[:size]
    order = torch.sort(mass_V, descending=True, stable=True).indices.tolist()
    chosen = set(fixed)
    for token in order:
        if len(chosen) >= size:
            break
        chosen.add(token)
    return torch.tensor(sorted(chosen), dtype=torch.int64)


def columns(ids_N: torch.Tensor | None, *, target_vocab: int, draft_vocab: int) -> torch.Tensor:
    """The draft's column of each of the target's tokens (V) int64; -1 where it has none. Without ids column = id."""
    column_V = torch.full((target_vocab,), -1, dtype=torch.int64)
    if ids_N is None:
        both = min(target_vocab, draft_vocab)
        column_V[:both] = torch.arange(both)
    else:
        column_V[ids_N] = torch.arange(len(ids_N))
    return column_V


def d2t(ids_N: torch.Tensor) -> torch.Tensor:
    """The map as it is stored: target id = row + d2t[row]."""
    return ids_N - torch.arange(len(ids_N))
