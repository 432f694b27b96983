"""Some rows of a head that does not learn, chosen anew for each step: they stand for the whole vocabulary.

The head is most of a small student's work. A step takes the rows that its laws give some mass, the commonest ones, and
for all others a few that are drawn evenly; the logits of these are raised by log(others / drawn), so that the sum over
the vocabulary is right in the mean. Which are drawn is a function of the seed and the number of the step. Letters:
N rows of the head, S chosen ones, R positions, K kept tokens of a law. Must not know: models, files.
Tests: tests/training/test_sampled_head.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from saguaro.training.loss import Laws

LEAST = 2e-3
"""A token that some law of a step gives so much is always computed."""
COMMON_SHARE, DRAWN_SHARE = 0.4, 0.2
"""Parts of the rows that are the commonest ones, and at least drawn from the others."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """The rows of one step.

    weight_SH: theirs. raise_S: what is added to their logits. laws: over these rows.
    """

    weight_SH: torch.Tensor
    raise_S: torch.Tensor
    laws: Laws


class SampledHead:
    """Chooses rows.

    Args:
        weight_NH: the head; a copy in `compute` is kept.
        mass_N: how much mass the laws of all texts give each row.
        size: rows of a step; more where its laws need more.
        compute: dtype of the products.
        seed: of what is drawn.
    """

    def __init__(
        self, weight_NH: torch.Tensor, mass_N: torch.Tensor, *, size: int, compute: torch.dtype, seed: int
    ) -> None:
        self._weight_NH = weight_NH.detach().to(compute)
        self._size, self._seed = size, seed
        count = min(len(mass_N), int(size * COMMON_SHARE))
        self._common_N = torch.zeros(len(mass_N), dtype=torch.bool)
        self._common_N[torch.sort(mass_N, descending=True, stable=True).indices[:count]] = True

    def choose(self, step: int, laws: Laws) -> Chosen:
        """Rows for the laws of a step."""
        taken_N = self._common_N.clone()
        named = (laws.columns_RK >= 0) & (laws.p_RK >= LEAST)
        taken_N[laws.columns_RK[named]] = True
        taken_S, others = taken_N.nonzero()[:, 0], (~taken_N).nonzero()[:, 0]
        count = min(len(others), max(self._size - len(taken_S), int(self._size * DRAWN_SHARE)))
        generator = torch.Generator().manual_seed((self._seed << 32) + step)
        drawn = others[torch.randperm(len(others), generator=generator)[:count]]
        rows_S = torch.cat([taken_S, drawn])
        raise_S = torch.zeros(len(rows_S))
        if count:
            raise_S[len(taken_S) :] = math.log(len(others) / count)
        place_N = torch.full((len(taken_N),), -1)
        place_N[taken_S] = torch.arange(len(taken_S))
        return Chosen(self._weight_NH[rows_S], raise_S, within(laws, place_N))


def within(laws: Laws, place_N: torch.Tensor) -> Laws:
    """Laws over some of the draft's columns: mass of columns without a place joins that of all others."""
    known_RK = laws.columns_RK >= 0
    place_RK = torch.where(known_RK, place_N[laws.columns_RK.clamp(min=0)], -1)
    moved_R = torch.where(known_RK & (place_RK < 0), laws.p_RK, 0.0).sum(-1)
    return replace(laws, columns_RK=place_RK, rest_R=laws.rest_R + moved_R)
