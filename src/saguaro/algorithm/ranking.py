"""The best entries of a row of scores or probabilities: exact in ties (the lower id first), never a whole sort.

`torch.topk` keeps an arbitrary one of several equal values at its edge; everything that ranks tokens goes through
here instead. No row depends on another. Shapes: R rows, V vocabulary, n entries asked for.
Must not know: temperatures, laws, drafts. Tests: tests/algorithm/test_ranking.py.
"""

from __future__ import annotations

import math

import torch

_FIRST_LOOK = 256  # entries that a nucleus looks at before it counts masses of the whole row
_CELLS = 4096  # cells of that count; scores below -_CELLS / _PER_UNIT share the last one
_PER_UNIT = 128.0


def stable_topk(scores_RV: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and ids of the best `count` entries of each row, best first, ties in order of id: (R, n) each."""
    vocab = scores_RV.shape[-1]
    count = min(count, vocab)
    values, ids = scores_RV.topk(min(count + 1, vocab), dim=-1)
    tied_R = values[:, count - 1] == values[:, count] if 0 < count < vocab else torch.zeros(len(ids), dtype=torch.bool)
    values, ids = values[:, :count], ids[:, :count]
    for row in tied_R.nonzero()[:, 0].tolist():
        edge = values[row, -1]
        ids[row] = torch.cat([ids[row][values[row] > edge], (scores_RV[row] == edge).nonzero()[:, 0]])[:count]
    ids = ids.sort(dim=-1).values
    values, order = scores_RV.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(-1, order)


def top_ids(scores_RV: torch.Tensor, count: int) -> list[list[int]]:
    """The best `count` ids of each row, best first, ties to the lower id; entries of -inf or NaN are not listed."""
    values, ids = stable_topk(scores_RV, count)
    fine = values > -math.inf
    return [
        [i for i, ok in zip(row, good, strict=True) if ok]
        for row, good in zip(ids.tolist(), fine.tolist(), strict=True)
    ]


def keep_best_(scores_V: torch.Tensor, count: int) -> None:
    """Set all but the best `count` entries of one row to -inf, in place."""
    _, ids = stable_topk(scores_V[None], count)
    kept = scores_V[ids[0]]
    scores_V.fill_(-math.inf)[ids[0]] = kept


def keep_nucleus_(scores_V: torch.Tensor, top_p: float) -> None:
    """Keep the smallest set of best entries whose softmax mass reaches `top_p`; set the others to -inf, in place.

    A peaked row is decided by its first few hundred entries. Otherwise the masses of narrow cells of scores are
    counted, and only the cell in which `top_p` is reached is sorted.

    Args:
        scores_V: one row whose largest entry is 0.
        top_p: between 0 and 1.
    """
    weights_V = torch.exp(scores_V)
    mass = top_p * float(weights_V.sum(dtype=torch.float64))
    look = min(_FIRST_LOOK, len(scores_V))
    values = scores_V.topk(look).values
    sums = torch.exp(values).to(torch.float64).cumsum(dim=0)
    if look == len(scores_V) or float(sums[-1]) >= mass:
        size = min(int(torch.searchsorted(sums, mass)) + 1, look)
        edge, above = values[size - 1], int((values[:size] > values[size - 1]).sum())
    else:
        edge, above, size = _edge_by_cells(scores_V, weights_V, mass)
    level_V = scores_V == edge
    dropped = level_V.nonzero()[size - above :, 0]
    scores_V.masked_fill_(scores_V < edge, -math.inf)
    scores_V[dropped] = -math.inf


def _edge_by_cells(scores_V: torch.Tensor, weights_V: torch.Tensor, mass: float) -> tuple[torch.Tensor, int, int]:
    """The last score that is kept, how many are above it, and how many are kept in all."""
    cell_V = (scores_V * -_PER_UNIT).clamp_max_(_CELLS - 1).to(torch.int32)
    sums = torch.bincount(cell_V, weights=weights_V.to(torch.float64), minlength=_CELLS).cumsum(dim=0)
    cell = min(int(torch.searchsorted(sums, mass)), _CELLS - 1)
    before, reached = int((cell_V < cell).sum()), float(sums[cell - 1]) if cell else 0.0
    inside = scores_V[cell_V == cell].sort(descending=True).values
    inner = torch.exp(inside).to(torch.float64).cumsum(dim=0) + reached
    last = min(int(torch.searchsorted(inner, mass)), len(inside) - 1)
    edge = inside[last]
    return edge, before + int((inside > edge).sum()), before + last + 1
