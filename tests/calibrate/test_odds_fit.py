"""The calibration under which tokens were drawn is found again."""

import random

import pytest

from saguaro.algorithm.odds import Calibration, guess_odds
from saguaro.algorithm.rounds import EndedRound
from saguaro.calibrate.odds_fit import fit_calibration
from saguaro.errors import ConfigError


def drawn_under(calibration: Calibration, count: int) -> list[EndedRound]:
    draw = random.Random(2)
    rounds = []
    for number in range(count):
        scores = tuple(sorted((draw.gauss(0, 3) for _ in range(20)), reverse=True))
        odds = guess_odds(scores, calibration)
        [rank] = draw.choices(range(20), odds)
        rounds.append(EndedRound(0, number, False, (), 0, rank, 1, (tuple(range(20)),), (scores,)))
    return rounds


@pytest.mark.parametrize("truth", [Calibration(1.2, 0.1), Calibration(2.0, 0.3)])
def test_the_truth_is_found(truth):
    found, likelihood, uncalibrated = fit_calibration(drawn_under(truth, 3000))
    assert found.sharpness == pytest.approx(truth.sharpness, rel=0.15)
    assert found.doubt == pytest.approx(truth.doubt, abs=0.04)
    assert likelihood > uncalibrated


def test_few_tokens_are_refused():
    with pytest.raises(ConfigError, match="record longer outputs"):
        fit_calibration(drawn_under(Calibration(), 5))
