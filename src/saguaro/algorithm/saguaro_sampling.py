"""Saguaro sampling, Section 4.2: draw less often what the cache will hold, so that the residual law falls on it.

sigma_{F,C}(z) is proportional to C * exp(z_t) for the F likeliest tokens and to exp(z_t) elsewhere. It is applied to
a law (after temperature and filters), and the law it returns is the one to draw from *and* to send along.
Theorem 15 (the hit rate never falls as C falls) holds when the sent token stays a candidate for the bonus token;
Section 4.1 excludes it, and then hits need not grow: C is tuned by measurement (docs/paper-map.md).
Must not know: caches, targets. Tests: tests/algorithm/test_saguaro_sampling.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from saguaro.algorithm.ranking import stable_topk
from saguaro.errors import ConfigError


def scale(q_RV: torch.Tensor, fan_out: int | Sequence[int], c: float) -> torch.Tensor:
    """sigma_{F,C} of each row.

    Args:
        q_RV: laws of the draft, rows sum to 1.
        fan_out: F of each row's position (how many guesses of the bonus token the next cache will hold there).
        c: C in 0 ... 1; 1 changes nothing.

    Returns:
        (R, V), a new tensor unless nothing is to be done. A row with no mass outside its F likeliest tokens is
        returned as it is: for C > 0 scaling would change nothing, for C = 0 nothing would be left.

    Raises:
        ConfigError: when C is outside 0 ... 1.
    """
    if not 0 <= c <= 1:
        raise ConfigError(f"C of Saguaro sampling must be in 0 ... 1, not {c}.")
    counts = [fan_out] * len(q_RV) if isinstance(fan_out, int) else list(fan_out)
    if c == 1 or not any(counts):
        return q_RV
    values, ids = stable_topk(q_RV, max(counts))
    scaled = torch.arange(values.shape[-1]) < torch.tensor(counts)[:, None]
    nothing_else_R1 = (q_RV > 0).sum(dim=-1, keepdim=True) == (scaled & (values > 0)).sum(dim=-1, keepdim=True)
    scaled_RV = q_RV.scatter(-1, ids, torch.where(scaled, c * values, values))
    scaled_RV /= scaled_RV.sum(dim=-1, keepdim=True)
    return torch.where(nothing_else_R1, q_RV, scaled_RV) if nothing_else_R1.any() else scaled_RV
