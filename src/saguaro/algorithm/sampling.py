"""From logits to scores, from scores to a law, and from either to a token.

Processing is temperature, then top-k, then top-p on what top-k left. Ties go to the lower id everywhere, and no value
of a row depends on the rows beside it: whatever sums over the vocabulary is computed row by row. A row that holds NaN
or infinity yields `BROKEN_ROW` for itself alone. Shapes: R rows, V vocabulary.
Must not know: models, caches, which rows are drafts. Tests: tests/algorithm/test_sampling.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from saguaro.algorithm.noise import Key, Purpose, draw_bits, gumbel_rows
from saguaro.errors import ConfigError

BROKEN_ROW = -1
_COLDEST = 1e-20  # below this a temperature cannot be told from 0 in float32
_FIRST_LOOK = 256  # candidates looked at before top-p asks for more

PerRow = float | Sequence[float]


def processed_scores(
    logits_RV: torch.Tensor, temperature: PerRow = 1.0, top_k: PerRow = 0, top_p: PerRow = 1.0
) -> torch.Tensor:
    """Scores whose softmax is the law: logits / T up to a constant a row, -inf where a filter removed the token.

    Args:
        logits_RV: raw logits; float64 stays float64, everything else is computed in float32.
        temperature: one value or one a row; a row at 0 keeps its logits as they are (its filters change nothing,
            since the best token always passes them).
        top_k: keep the k best tokens; 0 keeps all.
        top_p: keep the smallest set of best tokens whose probability reaches top_p; 1 keeps all.

    Returns:
        (R, V), a new tensor. Rows at temperature > 0 have 0 as their largest value, so no temperature overflows.
    """
    rows, vocab = logits_RV.shape
    temperatures, ks, ps = (_per_row(value, rows) for value in (temperature, top_k, top_p))
    wide_RV = logits_RV if logits_RV.dtype == torch.float64 else logits_RV.float()
    hot = torch.tensor([t > _COLDEST for t in temperatures])[:, None]
    divisor_R1 = torch.tensor([t if t > _COLDEST else 1.0 for t in temperatures], dtype=wide_RV.dtype)[:, None]
    best_R1 = wide_RV.amax(dim=-1, keepdim=True)
    scores_RV = (wide_RV - torch.where(hot, best_R1, 0.0)) / divisor_R1
    for row in range(rows):
        cut_k, cut_p = 0 < ks[row] < vocab, ps[row] < 1
        if temperatures[row] <= _COLDEST or not (cut_k or cut_p) or not math.isfinite(best_R1[row].item()):
            continue
        scores_1V = scores_RV[row : row + 1]
        if cut_k:
            scores_1V.masked_fill_(~top_mask(scores_1V, [int(ks[row])]), -math.inf)
        if cut_p:
            scores_1V.masked_fill_(~top_mask(scores_1V, [_nucleus_size(scores_1V[0], ps[row])]), -math.inf)
    return scores_RV


def law(logits_RV: torch.Tensor, temperature: PerRow = 1.0, top_k: PerRow = 0, top_p: PerRow = 1.0) -> torch.Tensor:
    """The law that each row is sampled from: (R, V), rows sum to 1; at temperature 0 all mass on the best token.

    The same function gives q for drawing and q for verifying, so the two cannot differ. A broken row is NaN.
    """
    temperatures = _per_row(temperature, len(logits_RV))
    scores_RV = processed_scores(logits_RV, temperatures, top_k, top_p)
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
        keys: one `noise.row_key` a row.

    Returns:
        R ids; `BROKEN_ROW` for a row whose logits hold NaN or +inf, or nothing but -inf.
    """
    rows, vocab = logits_RV.shape
    temperatures = _per_row(temperature, rows)
    scores_RV = processed_scores(logits_RV, temperatures, top_k, top_p)
    hot = [row for row in range(rows) if temperatures[row] > _COLDEST]
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


def top_ids(scores_RV: torch.Tensor, count: int) -> list[list[int]]:
    """The best `count` ids of each row, best first, ties to the lower id; -inf and NaN are never listed."""
    count = min(count, scores_RV.shape[-1])
    if count <= 0:
        return [[] for _ in range(len(scores_RV))]
    return [_top_of_row(row_V, count) for row_V in scores_RV]


def top_mask(scores_RV: torch.Tensor, counts_R: Sequence[int]) -> torch.Tensor:
    """Which entries are among the best `counts_R[i]` of their row: bool (R, V), ties at the edge to the lower id."""
    counts_R1 = torch.tensor(counts_R)[:, None].clamp(0, scores_RV.shape[-1])
    most = int(counts_R1.max()) if len(counts_R) else 0
    if not most:
        return torch.zeros_like(scores_RV, dtype=torch.bool)
    edge_R1 = scores_RV.topk(most, dim=-1).values.gather(-1, (counts_R1 - 1).clamp_min(0))
    above_RV, level_RV = scores_RV > edge_R1, scores_RV == edge_R1
    spare_R1 = counts_R1 - above_RV.sum(dim=-1, keepdim=True)
    return (above_RV | (level_RV & (level_RV.cumsum(dim=-1) <= spare_R1))) & (counts_R1 > 0)


def _nucleus_size(scores_V: torch.Tensor, top_p: float) -> int:
    """How many of the best tokens reach `top_p`. Looks at a growing number of them, never sorts a peaked row whole."""
    mass = top_p * float(torch.exp(scores_V).sum(dtype=torch.float64))
    vocab = len(scores_V)
    look = min(_FIRST_LOOK, vocab)
    while True:
        sums = torch.exp(scores_V.topk(look).values).to(torch.float64).cumsum(dim=0)
        if look == vocab or float(sums[-1]) >= mass:
            return min(int(torch.searchsorted(sums, mass)) + 1, look)
        look = min(8 * look, vocab)


def _top_of_row(scores_V: torch.Tensor, count: int) -> list[int]:
    look = min(count + 1, len(scores_V))
    values, ids = scores_V.topk(look)
    best, order = values.tolist(), ids.tolist()
    if look > count and best[count - 1] == best[count] > -math.inf:  # a tie across the edge: topk keeps any of the ids
        edge = best[count - 1]
        level = (scores_V == edge).nonzero()[:, 0].tolist()
        pairs = [(-b, i) for b, i in zip(best, order, strict=True) if b > edge] + [(-edge, i) for i in level]
    else:
        pairs = [(-b, i) for b, i in zip(best, order, strict=True)]
    pairs.sort()
    return [i for b, i in pairs[:count] if b < math.inf and not math.isnan(b)]


def _per_row(value: PerRow, rows: int) -> list[float]:
    values = [value] * rows if isinstance(value, (int, float)) else list(value)
    if len(values) != rows:
        raise ConfigError(f"{len(values)} sampling values were given for {rows} rows; give one a row.")
    return values
