import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.waiting import choose_depth, expected_tokens, expected_waits, long_run_rate

depths = st.lists(st.tuples(st.floats(0, 2), st.floats(0.1, 2), st.floats(1, 8)), min_size=1, max_size=9)


def test_expected_tokens():
    assert expected_tokens([0.9, 0.5]) == pytest.approx([1, 1.9, 2.35])


@given(depths, st.floats(0, 20))
def test_the_choice_is_the_best_by_trying_all(rows, rate):
    wait, verify, expected = zip(*rows, strict=True)
    values = [e - rate * (w + v) for w, v, e in rows]
    assert choose_depth(wait, verify, expected, rate) == values.index(max(values))


@given(depths)
def test_at_the_best_rate_the_choice_attains_it(rows):
    """The average-reward rule: the rate is a fixed point of choosing by it."""
    wait, verify, expected = zip(*rows, strict=True)
    rate = long_run_rate(wait, verify, expected)
    depth = choose_depth(wait, verify, expected, rate)
    assert expected[depth] / (wait[depth] + verify[depth]) == pytest.approx(rate)


@given(depths, st.floats(0.1, 20))
def test_no_other_depth_gives_a_better_long_run(rows, start):
    """Choosing by the rate that one's own choices give, again and again, ends at the best rate."""
    wait, verify, expected = zip(*rows, strict=True)
    rate = start
    for _ in range(60):
        depth = choose_depth(wait, verify, expected, rate)
        rate = expected[depth] / (wait[depth] + verify[depth])
    assert rate == pytest.approx(long_run_rate(wait, verify, expected))


def test_the_designs_example():
    """Draft step .38 of a verification: depth 1 is there at once, depth 2 after .14, and waiting pays."""
    wait = [0.0, 0.0, 3 * 0.38 - 1, 4 * 0.38 - 1]
    verify, expected = [1.0] * 4, expected_tokens([0.88] * 3)
    rate = long_run_rate(wait, verify, expected)
    assert choose_depth(wait, verify, expected, rate) == 2
    sd = max(e / (1 + 0.38 * d) for d, e in enumerate(expected_tokens([0.88] * 8)))
    at_once = expected[1] / (wait[1] + verify[1])
    assert at_once / sd == pytest.approx(1.2, abs=0.05)
    assert rate / sd == pytest.approx(1.5, abs=0.05)


def test_waiting_does_not_pay_when_drafts_are_poor():
    assert choose_depth([0, 0, 0.14], [1, 1, 1], expected_tokens([0.3, 0.3]), 1.3) == 1


def test_ties_go_to_the_smaller_depth():
    assert choose_depth([0, 0, 0], [1, 1, 1], [1, 2, 2], 1.0) == 1
    assert choose_depth([0, 0, 0], [1, 2, 3], [1, 2, 3], 1.0) == 0


def test_what_never_comes_is_never_waited_for():
    assert choose_depth([0, math.inf, math.inf], [1, 1, 1], [1, 2, 3], 1.0) == 0
    assert choose_depth([0, math.inf], [1, 1], [1, 2], 0.0) == 0


def test_tables_of_verification_may_be_longer():
    assert choose_depth([0, 0], [1.0, 1.0, 9.0, 9.0], [1, 1.8, 2.4], 1.0) == 1


def test_expected_waits():
    assert expected_waits(2, 5, first=0.25, step=0.5) == [0, 0, 0, 0.25, 0.75, 1.25]
    assert expected_waits(3, 2, first=0.25, step=0.5) == [0, 0, 0]
