"""From a draft's logits over its own ids to its scores over the target's, when their tokenizers differ.

A token of the draft counts for the target's token that its bytes begin with (`models/text_bridge.py`). One more token
is known for the likeliest: where the target writes both in one (`)` + newline), it gets the mass that both have
together. Such tokens take spare columns, since no single token of the draft stands for them.
Must not know: texts, rows, keys and values. Tests: tests/drafting/test_target_law.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from saguaro.drafting.shortlist import ColumnBook
from saguaro.models.text_bridge import NONE, TextBridge

SPARE = 1024
"""Columns for tokens that several of the draft's make together."""
SECOND = 8
"""Second tokens that are looked at."""


class TargetLaw:
    """Columns, and what they sum.

    Attributes:
        ids_C: int32, token of each column; another tensor after a change, never changed in place.
    """

    def __init__(self, bridge: TextBridge, *, target_vocab: int) -> None:
        self._bridge = bridge
        known = set(bridge.token_ids)
        others = [token for token in range(target_vocab) if token not in known][:SPARE]
        self._fixed = len(bridge.token_ids)
        ids = [*bridge.token_ids, *others]
        self._book = ColumnBook(ids, self._fixed, vocab=target_vocab)
        self._place = {token: column for column, token in enumerate(ids)}
        self.ids_C = torch.tensor(ids, dtype=torch.int32)
        column_D = torch.tensor(bridge.column_of)
        order = torch.arange(len(column_D))[column_D != NONE]
        first = torch.full((self._fixed,), len(column_D), dtype=torch.int64)
        first.scatter_reduce_(0, column_D[order], order, "amin")
        others_D = torch.ones(len(column_D), dtype=torch.bool)
        others_D[first] = False
        self._first_C = first
        self._others_E = order[others_D[order]]
        self._column_E = column_D[self._others_E]

    def scores(self, logits_WD: torch.Tensor, second: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """Scores (W, C) on the scale of the logits, so that what is added to or multiplied with a logit later
        (penalties) means the same; -inf where the mass vanishes.

        Args:
            logits_WD: over the draft's ids.
            second: logits (D) behind the likeliest id of each row, where they are known.
        """
        scale_W1 = torch.logsumexp(logits_WD, dim=1, keepdim=True)
        law_WD = torch.exp(logits_WD - scale_W1)
        law_WC = torch.zeros(len(law_WD), len(self.ids_C))
        law_WC[:, : self._fixed] = law_WD[:, self._first_C]
        if len(self._column_E):
            law_WC.index_add_(1, self._column_E, law_WD[:, self._others_E])
        self._join(law_WC, law_WD, second)
        return law_WC.log_().add_(scale_W1)

    def _join(self, law_WC: torch.Tensor, law_WD: torch.Tensor, second: Sequence[torch.Tensor | None]) -> None:
        """Move mass from the likeliest token of each row to what the target makes of it and the next one."""
        moves = []
        for row, (a, logits_D) in enumerate(zip(law_WD.argmax(dim=1).tolist(), second, strict=True)):
            piece = self._bridge.draft_piece(a)
            if logits_D is None or not piece:
                continue
            alone = self._bridge.column_of[a]
            top = torch.softmax(logits_D, dim=0).topk(min(SECOND, len(logits_D)))
            mass = float(law_WD[row, a])
            for b, share in zip(top.indices.tolist(), top.values.tolist(), strict=True):
                token = self._bridge.first_token(piece + self._bridge.draft_piece(b))
                if token is not None and (alone == NONE or token != self._bridge.token_ids[alone]):
                    moves.append((row, alone, token, mass * share))
        if not moves:
            return
        self._make_room([token for *_, token, _ in moves])
        for row, alone, token, moved in moves:
            column = self._place.get(token)
            if column is None:
                continue
            law_WC[row, column] += moved
            if alone != NONE:
                law_WC[row, alone] = max(0.0, float(law_WC[row, alone]) - moved)

    def _make_room(self, tokens: Sequence[int]) -> None:
        changed = self._book.expect(tokens)
        if not changed:
            return
        ids_C = self.ids_C.clone()
        for column in changed:
            self._place.pop(int(ids_C[column]), None)
        for column, token in changed.items():
            ids_C[column] = token
            self._place[token] = column
        self.ids_C = ids_C
