"""The corrections, each against an enumeration of all outcomes."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.theory.acceptance import expected_tokens
from saguaro.theory.branches import Answer, Drafting, best_counts, best_depth_and_budget, hit_rate, ssd_long_run
from saguaro.theory.evidence import Evidence
from saguaro.theory.fan_out import PowerLaw
from saguaro.theory.speedup import long_run_hit_rate, ssd_speedup

REJECTED, WHOLE = (0.0, 0.55, 0.7, 0.8, 0.85), (0.0, 0.9, 0.93, 0.95, 0.96)
KNOWN = Evidence(0.8, (0.85, 0.75), REJECTED, WHOLE)


def enumerated_hit_rate(known, counts):
    """Every pattern of accepted and rejected tokens, and every rank of the bonus token."""
    lookahead = len(counts) - 1
    rates = known.rates(lookahead)
    total = 0.0
    for pattern in itertools.product((True, False), repeat=lookahead):
        chance = math.prod(rate if right else 1 - rate for rate, right in zip(rates, pattern, strict=True))
        accepted = pattern.index(False) if False in pattern else lookahead
        curve = known.after_all if accepted == lookahead else known.after_rejection
        for rank in range(len(curve) - 1):
            total += chance * (curve[rank + 1] - curve[rank]) * (rank < counts[accepted])
    return total


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_hit_rate_against_enumeration(counts):
    assert hit_rate(KNOWN, counts) == pytest.approx(enumerated_hit_rate(KNOWN, counts))


def test_guesses_beyond_a_measured_curve_add_nothing():
    assert hit_rate(KNOWN, (9, 9, 9)) == hit_rate(KNOWN, (4, 4, 4))


@pytest.mark.parametrize("budget", [0, 1, 3, 6])
def test_best_counts_against_every_fan_out(budget):
    best = max(
        hit_rate(KNOWN, counts)
        for counts in itertools.product(range(min(budget, 4) + 1), repeat=4)
        if sum(counts) <= budget
    )
    assert hit_rate(KNOWN, best_counts(KNOWN, 3, budget)) == pytest.approx(best)


def test_the_papers_law_is_a_special_case():
    """c = 1 and one curve: 1 - p_hit,p(F) = F^-r whatever the acceptance (Definition 11)."""
    law = PowerLaw(c=1, r=0.5)
    curve = tuple(law.hit(guesses) for guesses in range(65))
    for fan_out in (2, 4, 8):
        assert hit_rate(Evidence(0.7, (), curve, curve), (fan_out,) * 5) == pytest.approx(1 - fan_out**-0.5)


def test_with_one_verification_time_it_is_theorem_7():
    counts, none = (2, 1, 1, 2), Evidence(0.0, (), (0.0, 0.4, 0.6), (0.0, 0.4, 0.6))
    drafting = Drafting(extend=0.2, step=lambda branches: 0.3)
    answer = Answer(none, 3, 0.0, (2, 0, 0, 0))
    found = ssd_long_run(KNOWN, counts, answer, verify=lambda rows: 1.0, drafting=drafting)
    rate = long_run_hit_rate(after_hit=hit_rate(KNOWN, counts), after_miss=hit_rate(none, (2, 0, 0, 0)))
    expected = expected_tokens(KNOWN.rates(3))
    theorem = ssd_speedup(rate, tokens_hit=expected, tokens_miss=1.0, primary=0.2 + 3 * 0.3, fallback=0.0)
    assert found.shares[0] == pytest.approx(rate)
    assert found.rate == pytest.approx(theorem)


def test_depth_below_k_pays_where_the_draft_is_late():
    """With drafting steps of half a verification, whole proposals of four keep the target waiting."""
    drafting = Drafting(extend=0.5, step=lambda branches: 0.5)

    def rate(depth):
        counts = best_counts(KNOWN, depth, 8)
        answer = Answer(KNOWN, depth, 0.5 * depth, counts)
        return ssd_long_run(KNOWN, counts, answer, verify=lambda rows: 1.0, drafting=drafting).rate

    assert rate(1) > rate(4)
    found = best_depth_and_budget(
        KNOWN,
        lambda depth, budget: Answer(KNOWN, depth, 0.5 * depth, best_counts(KNOWN, depth, budget)),
        verify=lambda rows: 1.0,
        drafting=drafting,
        most=4,
        budgets=[8],
    )
    assert found.long_run.rate == max(rate(depth) for depth in range(1, 5))


@given(st.floats(0, 0.2))
def test_branches_that_take_time_make_small_budgets_best(price):
    """Every budget is tried by hand; a larger price never asks for more branches."""
    budgets = [1, 2, 4, 8, 12]

    def best(price):
        drafting = Drafting(extend=0.2, step=lambda branches: 0.2 + price * branches)
        return best_depth_and_budget(
            KNOWN,
            lambda depth, budget: Answer(KNOWN, depth, 0.2 * depth, best_counts(KNOWN, depth, budget)),
            verify=lambda rows: 1.0,
            drafting=drafting,
            most=3,
            budgets=budgets,
        )

    assert best(price).long_run.rate <= best(0.0).long_run.rate
    assert best(0.2).budget < best(0.0).budget


def test_time_until_a_depth():
    drafting = Drafting(extend=1.0, step=lambda branches: 0.1 * branches, late=0.5)
    assert drafting.until(0, 4) == 0
    assert drafting.until(2, 4) == pytest.approx(1.0 + 2 * 0.4 + 0.5)
