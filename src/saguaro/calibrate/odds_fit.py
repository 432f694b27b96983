"""The draft's calibration by maximum likelihood: the sharpness and the doubt under which what the target drew was
likeliest.

Must not know: engines, files. Tests: tests/calibrate/test_odds_fit.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from saguaro.algorithm.odds import UNCALIBRATED, Calibration
from saguaro.algorithm.rounds import EndedRound
from saguaro.errors import ConfigError

FEWEST = 20
LISTED = 16
"""Candidates that are looked at: the law hardly depends on those further back."""
SHARPEST, LEAST_DOUBT, MOST_DOUBT = 10.0, 1e-3, 0.9
LOWEST = -60.0
"""Scores further below the first are as good as impossible."""


def fit_calibration(rounds: Sequence[EndedRound]) -> tuple[Calibration, float, float]:
    """The likeliest calibration, and the mean log likelihood of a token under it and under none.

    Raises:
        ConfigError: with fewer than `FEWEST` listed positions.
    """
    scores_MN, ranks_M = _samples(rounds)
    if len(ranks_M) < FEWEST:
        raise ConfigError(f"a calibration of the draft needs {FEWEST} tokens or more; record longer outputs.")
    best = (math.log(UNCALIBRATED.sharpness), _logit(UNCALIBRATED.doubt))
    value = _mean_likelihood(scores_MN, ranks_M, _calibration(*best))
    uncalibrated, step = value, 0.5
    while step > 1e-3:
        trials = [(best[0] + dx * step, best[1] + dy * step) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy]
        values = [_mean_likelihood(scores_MN, ranks_M, _calibration(*each)) for each in trials]
        top = int(np.argmax(values))
        if values[top] > value + 1e-9:
            best, value = trials[top], values[top]
        else:
            step /= 2
    return _calibration(*best), value, uncalibrated


def _samples(rounds: Sequence[EndedRound]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scores (M, n) less the first of their row, and the rank (M) of the target's token, where it was listed at all."""
    rows, ranks = [], []
    for each in rounds:
        for tokens, scores, drawn in zip(each.tokens, each.scores, each.drawn, strict=False):
            if len(tokens) < 2 or drawn not in tokens[:LISTED]:
                continue  # certain by a grammar, or a surprise of which the scores say nothing
            own = [max(score - scores[0], LOWEST) for score in scores[:LISTED]]
            rows.append([*own, *[-math.inf] * (LISTED - len(own))])
            ranks.append(tokens.index(drawn))
    return np.array(rows, dtype=np.float64).reshape(-1, LISTED), np.array(ranks, dtype=np.int64)


def _mean_likelihood(scores_MN: NDArray[np.float64], ranks_M: NDArray[np.int64], calibration: Calibration) -> float:
    """Mean log probability of the tokens by `algorithm.odds.guess_odds`, given that they are listed."""
    sharpness, doubt = calibration
    with np.errstate(invalid="ignore"):
        weights_MN = np.exp(sharpness * scores_MN)
    softmax_MN = weights_MN / weights_MN.sum(axis=1, keepdims=True)
    odds_MN = (1 - doubt) * softmax_MN + doubt * 0.5 ** (np.arange(LISTED) + 1.0)
    return float(np.log(odds_MN[np.arange(len(ranks_M)), ranks_M] / odds_MN.sum(axis=1)).mean())


def _calibration(log_sharpness: float, logit_doubt: float) -> Calibration:
    sharpness = min(max(math.exp(log_sharpness), 1 / SHARPEST), SHARPEST)
    doubt = 1 / (1 + math.exp(-logit_doubt))
    return Calibration(sharpness, min(max(doubt, LEAST_DOUBT), MOST_DOUBT))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))
