"""Promises in tokens a second against the formulas in units of a verification."""

import pytest

from saguaro.theory.acceptance import expected_tokens
from saguaro.theory.rates import LIKELY_ROWS, StepTimes, ar_rate, planned, promise, sd_rate, ssd_rate
from saguaro.theory.speedup import sd_speedup, ssd_speedup

VERIFY = {1: 0.06, 2: 0.06, 4: 0.065, 8: 0.08, 16: 0.16}
STEP = {1: 0.01, 2: 0.012, 4: 0.014, 8: 0.025}
TIMES = StepTimes.of(VERIFY, STEP)
LIKELY = [0.8] * 8


def test_one_row_is_the_theory_in_other_units() -> None:
    tokens, verify = expected_tokens(LIKELY[:3]), VERIFY[4]
    assert ar_rate(TIMES) == pytest.approx(1 / 0.06)
    assert sd_rate(TIMES, LIKELY, lookahead=3) == pytest.approx(sd_speedup(tokens, draft=3 * 0.01 / verify) / verify)
    expected = ssd_speedup(
        0.7, tokens_hit=tokens, tokens_miss=tokens, primary=4 * STEP[LIKELY_ROWS] / verify, fallback=0.03 / verify
    )
    assert ssd_rate(TIMES, LIKELY, 0.7, lookahead=3) == pytest.approx(expected / verify)


def test_a_batch_pays_for_every_row() -> None:
    """Where 16 rows take twice as long as 8, speculation does not pay at batch 8; at batch 1 it does."""
    for mode in ("sd", "ssd"):
        assert promise(mode, TIMES, LIKELY, 0.8).rate > ar_rate(TIMES)
        assert promise(mode, TIMES, LIKELY, 0.8, rows=8).rate < ar_rate(TIMES, rows=8)


def test_the_best_lookahead_follows_acceptance() -> None:
    poor, good = (promise("sd", TIMES, [a] * 8, 0.8).lookahead for a in (0.3, 0.95))
    assert poor == 1
    assert good > 4
    assert promise("ar", TIMES, LIKELY, 0.8) == (0, ar_rate(TIMES))


@pytest.mark.parametrize("mode", ["sd", "ssd"])
def test_slack_takes_the_largest_lookahead_that_promises_nearly_the_best(mode: str) -> None:
    best, deeper = (promise(mode, TIMES, LIKELY, 0.8, slack=slack) for slack in (0.0, 0.05))
    assert deeper.rate == best.rate
    assert deeper.lookahead >= best.lookahead + (mode == "sd")  # SSD's best is where its draft is just hidden

    def rate(lookahead: int) -> float:
        if mode == "sd":
            return sd_rate(TIMES, LIKELY, lookahead=lookahead)
        return ssd_rate(TIMES, LIKELY, 0.8, lookahead=lookahead)

    assert rate(deeper.lookahead) >= 0.95 * best.rate
    assert all(rate(k) < 0.95 * best.rate for k in range(deeper.lookahead + 1, 9))


def test_ssd_looks_at_least_as_far_ahead_as_sd() -> None:
    """An extend and five steps are longer than a verification, so Theorem 7 wants less; but tokens come one by one."""
    times = StepTimes.of(VERIFY, {1: 0.013, 8: 0.03})
    theory = promise("ssd", times, [0.9] * 8, 0.8)
    assert theory.lookahead == 4
    sd, ssd = (planned(mode, times, [0.9] * 8, 0.8, slack=0.02) for mode in ("sd", "ssd"))
    assert ssd == (sd.lookahead, theory.rate)
    assert sd.lookahead == 6


def test_contention_lowers_what_ssd_promises_and_nothing_else() -> None:
    slow = StepTimes(VERIFY, {rows: 2 * t for rows, t in VERIFY.items()}, STEP, STEP)
    assert promise("ssd", slow, LIKELY, 0.8).rate < 0.7 * promise("ssd", TIMES, LIKELY, 0.8).rate
    for mode in ("ar", "sd"):
        assert promise(mode, slow, LIKELY, 0.8) == promise(mode, TIMES, LIKELY, 0.8)
