"""Odds of guesses and outcomes, and which rows are worth a pass."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.odds import (
    Guesses,
    best_outcomes,
    branches_worth_running,
    guess_odds,
    likely_outcomes,
    rows_worth_running,
)
from saguaro.algorithm.terms import Outcome

SCORES = st.lists(st.floats(-30, 30), min_size=1, max_size=6).map(lambda s: sorted(s, reverse=True))


def position(tokens: list[int], scores: list[float]) -> Guesses:
    return Guesses(tokens, guess_odds(scores))


@given(SCORES)
def test_odds_fall_and_leave_something_for_the_rest(scores: list[float]) -> None:
    odds = guess_odds(scores)
    assert odds == sorted(odds, reverse=True)
    assert min(odds) > 0
    assert sum(odds) < 1


def test_a_sure_draft_is_believed_and_never_quite() -> None:
    sure = guess_odds([50.0, 0.0, 0.0])
    assert 0.97 < sure[0] < 0.995
    assert sure[1] > sure[2] > 0.002
    even = guess_odds([1.0, 1.0])
    assert even[0] - even[1] < 0.05


def test_an_unlisted_token_has_less_than_the_last() -> None:
    guesses = position([3, 4], [1.0, 0.0])
    assert guesses.of(3) > guesses.of(4) > guesses.of(9) > 0
    assert Guesses([], []).of(1) == 0.0


def test_outcomes_by_hand() -> None:
    """Two sent tokens: (k, t) has the odds of k acceptances times those of t at position k."""
    guesses = [Guesses([1, 2], [0.8, 0.1]), Guesses([5, 6], [0.6, 0.3]), Guesses([7, 8], [0.9, 0.05])]
    likely = likely_outcomes(guesses, [1, 5], [1, 1, 2])
    assert [key for _, key in likely] == [Outcome(2, 7), Outcome(1, 6), Outcome(0, 2), Outcome(2, 8)]
    assert [odds for odds, _ in likely] == pytest.approx([0.8 * 0.6 * 0.9, 0.8 * 0.3, 0.1, 0.8 * 0.6 * 0.05])


@given(st.lists(SCORES, min_size=1, max_size=4), st.integers(0, 8))
def test_best_outcomes_are_the_likeliest_of_all(scores: list[list[float]], budget: int) -> None:
    guesses = [position(list(range(10, 10 + len(s))), s) for s in scores]
    sent = [10] * (len(guesses) - 1)
    every = likely_outcomes(guesses, sent, [9] * len(guesses))
    best = best_outcomes(guesses, sent, budget)
    assert len(best) == min(budget, len(every))
    assert [odds for odds, _ in best] == [odds for odds, _ in every[: len(best)]]


def test_places_are_kept_for_the_position_to_come() -> None:
    """Sure of both sent tokens, what follows them is likelier than any rejection: its branches come first."""
    guesses = [position([1, 2, 3], [9.0, 0.0, -1.0]), position([4, 5, 6], [9.0, 0.0, -1.0])]
    assert len(best_outcomes(guesses, [1, 4], 3)) < 3
    whole = [*guesses, position([7, 8, 9], [2.0, 1.0, 0.0])]
    assert [key.accepted for _, key in best_outcomes(whole, [1, 4], 3)] == [2, 2, 2]


@given(st.lists(st.floats(0, 1), max_size=8), st.integers(0, 3), st.floats(0, 1), st.floats(0, 2))
def test_the_count_has_the_best_rate(worths: list[float], fixed: int, fixed_worth: float, slope: float) -> None:
    worths = sorted(worths, reverse=True)

    def seconds(rows: int) -> float:
        return 1.0 + slope * rows

    count = rows_worth_running(worths, seconds, fixed_rows=fixed, fixed_worth=fixed_worth if fixed else 0.0)
    totals = itertools.accumulate(worths, initial=fixed_worth if fixed else 0.0)
    rates = [total / seconds(fixed + n) if fixed + n else 0.0 for n, total in enumerate(totals)]
    assert rates[count] == max(rates)


def test_free_rows_all_run_and_dear_rows_only_when_likely() -> None:
    worths = [0.5, 0.05, 0.05, 0.04]
    assert rows_worth_running(worths, lambda rows: 1.0) == 4
    assert rows_worth_running(worths, lambda rows: float(rows)) == 1
    assert rows_worth_running([], lambda rows: 1.0) == 0


def test_a_pass_for_branches_alone_must_save_more_than_it_costs_the_target():
    slow = {1: 0.15, 2: 0.16, 3: 0.30}
    quick = {1: 0.10, 2: 0.11, 3: 0.20}
    branches = [(0.8, 0.6), (0.2, 0.15)]
    # Asked for: .8 and .2 tokens of .1 s each, .1 s in all; the target loses .05 s.
    assert branches_worth_running(branches, slow.__getitem__, quick.__getitem__) == 2
    assert branches_worth_running([(0.4, 0.1), (0.1, 0.05)], slow.__getitem__, quick.__getitem__) == 0
    # Beside a tail that runs anyway only the time of the rows counts.
    assert branches_worth_running(branches, slow.__getitem__, quick.__getitem__, fixed_rows=1, fixed_worth=0.5) == 1
