import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.errors import ConfigError
from saguaro.theory.acceptance import number_accepted
from saguaro.theory.fit import (
    RunningAcceptance,
    acceptance_per_position,
    fit_power_law,
    fit_ranks,
    misses_from_ranks,
)


@given(st.floats(0.1, 0.9), st.floats(0.2, 1.2))
def test_power_law_is_found_in_its_own_expected_counts(c, r):
    sizes = [1, 2, 3, 4, 8, 16, 32]
    misses = [round(1e7 * c * f**-r) for f in sizes]
    law = fit_power_law(misses, trials=[10**7] * len(sizes), fan_outs=sizes)
    assert law.c == pytest.approx(c, rel=1e-3)
    assert law.r == pytest.approx(r, rel=1e-3, abs=1e-4)


def test_power_law_from_sampled_rounds():
    draw = random.Random(3)
    sizes = [1, 2, 4, 8]
    misses = [sum(draw.random() < 0.5 * f**-0.6 for _ in range(4000)) for f in sizes]
    law = fit_power_law(misses, trials=[4000] * 4, fan_outs=sizes)
    assert law.c == pytest.approx(0.5, abs=0.03)
    assert law.r == pytest.approx(0.6, abs=0.06)


def test_power_law_of_the_measured_curve():
    """DESIGN D1 at temperature 0: bonus predicted .493, .655, .725, .782, .873 at F = 1, 2, 3, 4, 8."""
    misses = [507, 345, 275, 218, 127]
    law = fit_power_law(misses, trials=[1000] * 5, fan_outs=[1, 2, 3, 4, 8])
    assert law.c == pytest.approx(0.5, abs=0.03)
    assert 0.5 < law.r < 0.7


def test_a_fan_out_without_misses_is_still_evidence():
    seen = fit_power_law([50, 25, 0], trials=[100, 100, 100], fan_outs=[1, 2, 16])
    assert seen.r > fit_power_law([50, 25], trials=[100, 100]).r


@pytest.mark.parametrize("misses", [[3], [0, 0, 0], [4, 0, 0]])
def test_power_law_needs_misses(misses):
    with pytest.raises(ConfigError, match="two different fan-outs"):
        fit_power_law(misses, trials=[10] * len(misses))


def test_misses_from_ranks():
    assert misses_from_ranks([0, 0, 1, 2, None], largest=3) == [3, 2, 1]


def test_acceptance_per_position():
    assert acceptance_per_position([8, 3, 0], [10, 8, 0]) == [0.8, 0.375, None]


def test_running_acceptance_starts_and_learns():
    estimate = RunningAcceptance()
    assert estimate.rate == pytest.approx(0.8)
    assert estimate.per_position(3) == pytest.approx([0.8] * 3)
    draw = random.Random(5)
    law = number_accepted([0.9, 0.5])
    for _ in range(3000):
        estimate.update(draw.choices(range(3), law)[0], 2)
    first, second, third = estimate.per_position(3)
    assert first == pytest.approx(0.9, abs=0.08)
    assert second == pytest.approx(0.5, abs=0.12)
    assert third == pytest.approx(estimate.rate)


def test_running_acceptance_counts_up_to_the_first_rejection():
    estimate = RunningAcceptance(start=0.5, weight=1, keep=1)
    estimate.update(1, 4)
    assert estimate.rate == pytest.approx((0.5 + 1) / (1 + 2))
    estimate.update(0, 0)
    assert estimate.rate == pytest.approx((0.5 + 1) / (1 + 2))


def test_running_acceptance_forgets():
    estimate = RunningAcceptance(keep=0.9)
    for _ in range(200):
        estimate.update(0, 4)
    for _ in range(60):
        estimate.update(4, 4)
    assert estimate.rate > 0.8


def ranks_of(c: float, r: float, count: int, draw: random.Random, *, longest: int = 31) -> list[int | None]:
    """Ranks whose chance to be missing from F guesses is c * F^-r."""
    found: list[int | None] = []
    for _ in range(count):
        u = draw.random()
        guesses = next((f for f in range(1, longest + 1) if u >= c * f**-r), None)
        found.append(None if guesses is None else guesses - 1)
    return found


def test_a_law_from_ranks_and_its_errors():
    """Over many samples the estimates scatter as their standard errors say."""
    draw = random.Random(7)
    fits = [fit_ranks(ranks_of(0.5, 0.7, 400, draw), largest=31) for _ in range(150)]
    for estimates, errors, truth in (
        ([fit.law.c for fit in fits], [fit.c_error for fit in fits], 0.5),
        ([fit.law.r for fit in fits], [fit.r_error for fit in fits], 0.7),
    ):
        assert statistics.mean(estimates) == pytest.approx(truth, abs=0.02)
        assert statistics.stdev(estimates) == pytest.approx(statistics.mean(errors), rel=0.2)


def test_a_law_from_ranks_by_hand():
    """A quarter is missed by one guess, and half of those by two: c = 1/4 and 2^-r = 1/2."""
    fit = fit_ranks([0] * 6 + [1, None], largest=2)
    assert (fit.law.c, fit.law.r) == pytest.approx((0.25, 1.0))
    assert fit.c_error == pytest.approx((0.25 * 0.75 / 8) ** 0.5)
    assert fit.trials == 8


@pytest.mark.parametrize(("ranks", "largest"), [([0, 0], 8), ([], 8), ([0, 1], 1)])
def test_a_law_from_ranks_needs_misses(ranks, largest):
    with pytest.raises(ConfigError, match="missed"):
        fit_ranks(ranks, largest=largest)
