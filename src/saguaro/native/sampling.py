"""Keyed Gumbel noise and noisy argmax (announcement of the interface; the bodies follow)."""

from __future__ import annotations

import torch


def gumbel(key: tuple[int, int], out_V: torch.Tensor) -> None:
    """out[t] = float32(-log(-log1p(-u_t))), computed in double and rounded once."""


def argmax_noisy(
    logits_RV: torch.Tensor, keys_R2: torch.Tensor, temperature_R: torch.Tensor, out_ids_R: torch.Tensor
) -> None:
    """argmax of float32(logits / temperature) + gumbel(key) a row; temperature 0: argmax of logits.

    keys int64 (R, 2) holding uint32 values; temperature float32 (R); out int32 (R). Ties go to the lowest id.
    A row that holds NaN, or no value above -inf, gets -1; other rows are not affected. Masked tokens are -inf.
    """


def top_noisy(
    logits_RV: torch.Tensor,
    keys_R2: torch.Tensor,
    temperature_R: torch.Tensor,
    out_ids_Rn: torch.Tensor,
    out_scores_Rn: torch.Tensor,
) -> None:
    """The n <= 64 largest noisy scores of each row, falling; ties lowest id first; n is out_ids_Rn.shape[1]."""
