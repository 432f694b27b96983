"""From logits to scores, from scores to a law, and from either to a token.

Processing is temperature, then min-p, then top-k, then top-p on what those left. Ties go to the lower id everywhere,
and no value of a row depends on the rows beside it: whatever sums over the vocabulary is computed row by row. A row
that holds NaN or infinity yields `BROKEN_ROW` for itself alone. Shapes: R rows, V vocabulary.
Must not know: models, caches, which rows are drafts. Tests: tests/algorithm/test_sampling.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from saguaro.algorithm.noise import Key, Purpose, draw_bits, gumbel_rows
from saguaro.algorithm.ranking import keep_best_, keep_nucleus_
from saguaro.errors import ConfigError

BROKEN_ROW = -1
_COLDEST = 1e-20  # below this a temperature cannot be told from 0 in float32

PerRow = float | Sequence[float]


def processed_scores(
    logits_RV: torch.Tensor,
    temperature: PerRow = 1.0,
    top_k: PerRow = 0,
    top_p: PerRow = 1.0,
    min_p: PerRow = 0.0,
) -> torch.Tensor:
    """Scores whose softmax is the law: logits / T up to a constant a row, -inf where a filter removed the token.

    Args:
        logits_RV: raw logits; float64 stays float64, everything else is computed in float32.
        temperature: one value or one a row; a row at 0 keeps its logits as they are (its filters change nothing,
            since the best token always passes them).
        top_k: keep the k best tokens; 0 keeps all.
        top_p: keep the smallest set of best tokens whose probability reaches top_p; 1 keeps all.
        min_p: keep tokens at least min_p times as likely as the best; 0 keeps all.

    Returns:
        (R, V), a new tensor. Rows at temperature > 0 have 0 as their largest value, so no temperature overflows.
    """
    rows, vocab = logits_RV.shape
    temperatures, ks, ps, floors = (_per_row(value, rows) for value in (temperature, top_k, top_p, min_p))
    wide_RV = logits_RV if logits_RV.dtype == torch.float64 else logits_RV.float()
    hot = torch.tensor([t > _COLDEST for t in temperatures])[:, None]
    divisor_R1 = torch.tensor([t if t > _COLDEST else 1.0 for t in temperatures], dtype=wide_RV.dtype)[:, None]
    best_R1 = wide_RV.amax(dim=-1, keepdim=True)
    scores_RV = (wide_RV - torch.where(hot, best_R1, 0.0)) / divisor_R1
    for row in range(rows):
        cut_k, cut_p, cut_low = 0 < ks[row] < vocab, ps[row] < 1, floors[row] > 0
        filtered = temperatures[row] > _COLDEST and (cut_k or cut_p or cut_low)
        if not filtered or not math.isfinite(best_R1[row].item()):
            continue
        if cut_low:
            scores_RV[row].masked_fill_(scores_RV[row] < math.log(floors[row]), -math.inf)
        if cut_k:
            keep_best_(scores_RV[row], int(ks[row]))
        if cut_p:
            keep_nucleus_(scores_RV[row], ps[row])
    return scores_RV


def law(
    logits_RV: torch.Tensor,
    temperature: PerRow = 1.0,
    top_k: PerRow = 0,
    top_p: PerRow = 1.0,
    min_p: PerRow = 0.0,
) -> torch.Tensor:
    """The law that each row is sampled from: (R, V), rows sum to 1; at temperature 0 all mass on the best token.

    The same function gives q for drawing and q for verifying, so the two cannot differ. A broken row is NaN.
    """
    temperatures = _per_row(temperature, len(logits_RV))
    scores_RV = processed_scores(logits_RV, temperatures, top_k, top_p, min_p)
    p_RV = torch.softmax(scores_RV, dim=-1)
    cold = [row for row, t in enumerate(temperatures) if t <= _COLDEST]
    if cold:
        best_R1, ids_R1 = scores_RV[cold].max(dim=-1, keepdim=True)
        base_RV = torch.where(torch.isfinite(best_R1), 0.0, math.nan).to(p_RV.dtype).expand(-1, p_RV.shape[-1])
        p_RV[cold] = base_RV.scatter_add(-1, ids_R1, torch.ones_like(best_R1))
    return p_RV


def draw_shared_noise(
    logits_RV: torch.Tensor,
    temperature: PerRow = 1.0,
    top_k: PerRow = 0,
    top_p: PerRow = 1.0,
    min_p: PerRow = 0.0,
    *,
    keys: Sequence[Key],
) -> list[int]:
    """One token a row: argmax of processed score + Gumbel noise, ties to the lowest id; the plain argmax at T = 0.

    The law of the token over random keys is `law(...)` exactly (the Gumbel-max trick).

    Args:
        logits_RV: raw logits.
        temperature: as in `processed_scores`.
        top_k: as in `processed_scores`.
        top_p: as in `processed_scores`.
        min_p: as in `processed_scores`.
        keys: one `noise.row_key` a row.

    Returns:
        R ids; `BROKEN_ROW` for a row whose logits hold NaN or +inf, or nothing but -inf.
    """
    rows, vocab = logits_RV.shape
    temperatures = _per_row(temperature, rows)
    hot = [row for row in range(rows) if temperatures[row] > _COLDEST]
    scores_RV = processed_scores(logits_RV, temperatures, top_k, top_p, min_p) if hot else logits_RV
    if len(hot) == rows:
        scores_RV += gumbel_rows(keys, vocab)
    elif hot:
        scores_RV[hot] += gumbel_rows([keys[row] for row in hot], vocab)
    best_R, ids_R = scores_RV.max(dim=-1)
    return torch.where(torch.isfinite(best_R), ids_R, BROKEN_ROW).tolist()


def draw_from_law(p_RV: torch.Tensor, uniforms_R: Sequence[float]) -> list[int]:
    """One token a row by inverting the cumulative law at a number in (0, 1).

    Sums are float64 and need not reach 1 exactly: the uniform is scaled by the row's total. A token of probability 0
    is never returned. A row without finite positive mass gives `BROKEN_ROW`.
    """
    sums_RV = p_RV.to(torch.float64).cumsum(dim=-1)
    total_R1 = sums_RV[:, -1:].contiguous()
    aim_R1 = total_R1 * torch.as_tensor(uniforms_R, dtype=torch.float64)[:, None]
    ids_R1 = torch.searchsorted(sums_RV, aim_R1, right=True)
    last_R1 = torch.searchsorted(sums_RV, total_R1)
    fine_R1 = torch.isfinite(total_R1) & (total_R1 > 0)
    return torch.where(fine_R1, torch.minimum(ids_R1, last_R1), BROKEN_ROW)[:, 0].tolist()


def uniform(
    seed: int, choice: int, *, position: int, round_number: int, branch: tuple[int, int] | None, purpose: Purpose
) -> float:
    """The keyed number in (0, 1) of one draw under `rejection`; both ends are excluded (52 bits and a half).

    The arguments are those of `noise.draw_bits`. Equal keys give equal numbers, so a key must be used once.
    """
    bits = draw_bits(seed, choice, position=position, round_number=round_number, branch=branch, purpose=purpose)
    return ((bits >> 12) + 0.5) * 2.0**-52


def _per_row(value: PerRow, rows: int) -> list[float]:
    values = [value] * rows if isinstance(value, (int, float)) else list(value)
    if len(values) != rows:
        raise ConfigError(f"{len(values)} sampling values were given for {rows} rows; give one a row.")
    return values
