"""The head of a draft over some of the vocabulary: which tokens its columns stand for, and how columns change.

Only a draft may have one: tokens that it lacks are not proposed, and nothing else follows (DESIGN section 6). The rows
of the whole head stay packed beside it, usually mapped from the file of packed weights, so that a column can be given
to another token by copying one row. A head that has a vocabulary of its own in its checkpoint (`d2t`) is one whose
columns stay. Must not know: which tokens are wanted, requests.
Tests: tests/models/test_short_head.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from saguaro.models.layers.base import LayerOps, Linear


class ShortHead:
    """Some rows of a head.

    Args:
        whole: the head over the whole vocabulary, packed.
        ids: token of each column.
        ops: what packed it.
        fixed: the first so many columns are not meant to change; all when None. For whoever chooses what changes.
        rows: row of `whole` for each column, where that is not the token's id; no column changes then.

    Attributes:
        linear: the rows, as the decoder runs them.
        ids_S: int32, token of each column. Never changed in place: a law that was drawn earlier may hold on to it.
    """

    def __init__(
        self,
        whole: Linear,
        ids: Sequence[int],
        ops: LayerOps,
        *,
        fixed: int | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        assert rows is None or fixed is None, "a row of a vocabulary of its own belongs to one token"
        self.ids_S = torch.tensor(list(ids), dtype=torch.int32)
        self.fixed = len(self.ids_S) if fixed is None else fixed
        self._whole: Any = whole
        self._ops = ops
        self.linear = ops.select(whole, self.ids_S.long() if rows is None else torch.tensor(list(rows)))

    def replace(self, columns: Sequence[int], ids: Sequence[int]) -> None:
        """Column columns[i] becomes token ids[i].

        Raises:
            IndexError: a column or a token that there is not.
        """
        columns_N, ids_N = torch.tensor(list(columns), dtype=torch.int64), torch.tensor(list(ids), dtype=torch.int64)
        self._ops.copy_rows(self._whole, ids_N, self.linear, columns_N)
        ids_S = self.ids_S.clone()
        ids_S[columns_N] = ids_N.int()
        self.ids_S = ids_S
