"""Keyed Gumbel noise and the best tokens under it: the native twin of `algorithm/noise.py` and `draw_shared_noise`.

A noisy score is (logit - largest logit) / temperature + noise in float32, the noise being computed in double and
rounded once; temperature 0 means the plain logits. Ties go to the first column, which is the lowest id wherever columns
are the ids themselves: everywhere but in a draft, whose order nobody relies on. DESIGN D1. Shapes: R rows, V columns.
Must not know: requests, models. Tests: tests/native/test_sampling.py.
"""

from __future__ import annotations

import torch

from saguaro.native.library import library

LARGEST_TOP = 64


def gumbel(key: tuple[int, int], out_V: torch.Tensor, *, token_ids_V: torch.Tensor | None = None) -> None:
    """out[i] = -log(-log1p(-u)) of token i, or of token_ids_V[i] (int32). out_V: float32, contiguous."""
    vocab = out_V.shape[0]
    _check("out_V", out_V, torch.float32, (vocab,))
    key_2 = torch.tensor(key, dtype=torch.int64)
    library().sgr_gumbel(_ids_address(token_ids_V, vocab), key_2.data_ptr(), vocab, out_V.data_ptr())


def argmax_noisy(
    logits_RV: torch.Tensor,
    keys_R2: torch.Tensor,
    temperature_R: torch.Tensor,
    out_ids_R: torch.Tensor,
    *,
    token_ids_V: torch.Tensor | None = None,
) -> None:
    """The best token of each row.

    Args:
        logits_RV: float32, contiguous; removed tokens are -inf.
        keys_R2: int64, two 32-bit words a row (`noise.row_key`).
        temperature_R: float32; 0 is the plain argmax.
        out_ids_R: int32. A row that holds NaN or +inf, or nothing above -inf, gets -1; other rows are not affected.
        token_ids_V: int32: token id of each column in any order (a short head), or None for 0 ... V-1.

    Raises:
        ValueError: for tensors that do not fit.
    """
    rows = logits_RV.shape[0]
    _check("out_ids_R", out_ids_R, torch.int32, (rows,))
    _top(logits_RV, keys_R2, temperature_R, token_ids_V, 1, out_ids_R.data_ptr(), None)


def top_noisy(
    logits_RV: torch.Tensor,
    keys_R2: torch.Tensor,
    temperature_R: torch.Tensor,
    out_ids_Rn: torch.Tensor,
    out_scores_Rn: torch.Tensor,
    *,
    token_ids_V: torch.Tensor | None = None,
) -> None:
    """The n best noisy scores of each row, falling; n is the width of the outputs, 1 ... 64.

    Args as in `argmax_noisy`; out_scores_Rn: float32. Places that a row cannot fill get id -1 and score -inf.
    """
    rows, n = out_ids_Rn.shape
    if not 1 <= n <= LARGEST_TOP:
        raise ValueError(f"top_noisy gives 1 ... {LARGEST_TOP} tokens a row, not {n}")
    _check("out_ids_Rn", out_ids_Rn, torch.int32, (rows, n))
    _check("out_scores_Rn", out_scores_Rn, torch.float32, (rows, n))
    if logits_RV.shape[0] != rows:
        raise ValueError(f"out_ids_Rn has {rows} rows, logits_RV {logits_RV.shape[0]}")
    _top(logits_RV, keys_R2, temperature_R, token_ids_V, n, out_ids_Rn.data_ptr(), out_scores_Rn.data_ptr())


def _top(
    logits_RV: torch.Tensor,
    keys_R2: torch.Tensor,
    temperature_R: torch.Tensor,
    token_ids_V: torch.Tensor | None,
    n: int,
    ids_address: int,
    scores_address: int | None,
) -> None:
    rows, vocab = logits_RV.shape
    _check("logits_RV", logits_RV, torch.float32, (rows, vocab))
    _check("keys_R2", keys_R2, torch.int64, (rows, 2))
    _check("temperature_R", temperature_R, torch.float32, (rows,))
    library().sgr_top_noisy(
        logits_RV.data_ptr(), _ids_address(token_ids_V, vocab), keys_R2.data_ptr(), temperature_R.data_ptr(),
        rows, vocab, n, ids_address, scores_address,
    )  # fmt: skip


def _ids_address(token_ids_V: torch.Tensor | None, vocab: int) -> int | None:
    if token_ids_V is None:
        return None
    _check("token_ids_V", token_ids_V, torch.int32, (vocab,))
    return token_ids_V.data_ptr()


def _check(name: str, tensor: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    if tensor.dtype is not dtype or tuple(tensor.shape) != shape or not tensor.is_contiguous():
        raise ValueError(f"{name} must be contiguous {dtype} {shape}, not {tuple(tensor.shape)} {tensor.dtype}")
