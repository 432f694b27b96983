"""The target's own draw at every position, exactly as it would be without speculation (DESIGN D1).

The fast path draws argmax(logit / T - log E) in one native pass over the row; top-k and top-p take the row through
`algorithm/sampling.py`, which is also the oracle of the fast path. Which path is taken depends on the request alone,
never on the batch. Must not know: proposals, outcomes, caches. Tests: tests/execution/test_sampler.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from saguaro import native
from saguaro.algorithm import noise, sampling


@dataclass(frozen=True, slots=True)
class Draw:
    """How one row is drawn: the sampling options of its request and the key of its position."""

    temperature: float
    top_k: int
    top_p: float
    seed: int
    choice: int
    position: int

    @property
    def key(self) -> tuple[int, int]:
        """The noise key (two 32-bit words)."""
        return noise.row_key(self.seed, self.choice, self.position)

    @property
    def filtered(self) -> bool:
        """Whether top-k or top-p apply; at temperature 0 they change nothing."""
        return self.temperature > 0 and (self.top_k > 0 or self.top_p < 1)


def draw_tokens(logits_RV: torch.Tensor, draws: Sequence[Draw]) -> list[int]:
    """The token of each row; -1 where the row holds a NaN (that row fails, no other)."""
    out_R = torch.empty(len(draws), dtype=torch.int32)
    native.argmax_noisy(logits_RV, *_keys_and_temperatures(draws), out_R)
    tokens = out_R.tolist()
    for row, one in enumerate(draws):
        if one.filtered and tokens[row] >= 0:
            scores_V = _filtered_scores(logits_RV[row : row + 1], one)
            tokens[row] = int(torch.argmax(scores_V))
    return tokens


def top_candidates(
    logits_RV: torch.Tensor, draws: Sequence[Draw], count: int
) -> tuple[list[list[int]], list[list[float]]]:
    """The `count` likeliest tokens of each row under its noise, best first, and their noisy scores: what the draft
    expects the target to draw.
    """
    count = min(count, logits_RV.shape[1])
    ids_Rn = torch.empty(len(draws), count, dtype=torch.int32)
    scores_Rn = torch.empty(len(draws), count, dtype=torch.float32)
    native.top_noisy(logits_RV, *_keys_and_temperatures(draws), ids_Rn, scores_Rn)
    ranked, scores = ids_Rn.tolist(), scores_Rn.tolist()
    for row, one in enumerate(draws):
        if one.filtered:
            best = torch.topk(_filtered_scores(logits_RV[row : row + 1], one), count)
            ranked[row], scores[row] = best.indices.tolist(), best.values.tolist()
        fine = sum(1 for score in scores[row] if score > float("-inf"))
        ranked[row], scores[row] = ranked[row][:fine], scores[row][:fine]
    return ranked, scores


def _keys_and_temperatures(draws: Sequence[Draw]) -> tuple[torch.Tensor, torch.Tensor]:
    keys_R2 = torch.tensor([(0, 0) if d.temperature == 0 else d.key for d in draws], dtype=torch.int64)
    temperature_R = torch.tensor([d.temperature for d in draws], dtype=torch.float32)
    return keys_R2, temperature_R


def _filtered_scores(logits_1V: torch.Tensor, one: Draw) -> torch.Tensor:
    """Noisy scores of one row under top-k and top-p; what is filtered out is -inf."""
    scores_1V = sampling.processed_scores(logits_1V, one.temperature, one.top_k, one.top_p)
    gumbel_V = torch.empty(scores_1V.shape[1], dtype=torch.float32)
    native.gumbel(one.key, gumbel_V)
    return scores_1V[0] + gumbel_V
