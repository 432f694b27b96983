import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.errors import ConfigError
from saguaro.theory.chain import Kind, long_run, stationary
from saguaro.theory.speedup import long_run_hit_rate, ssd_speedup

inside = st.floats(0.02, 0.98)


@given(inside, inside)
def test_two_kinds_are_the_papers_closed_form(after_hit, after_miss):
    shares = stationary([(after_hit, 1 - after_hit), (after_miss, 1 - after_miss)])
    assert shares[0] == pytest.approx(long_run_hit_rate(after_hit=after_hit, after_miss=after_miss))


@given(inside, inside, st.floats(1, 8), st.floats(1, 8), st.floats(0, 2), st.floats(0, 2))
def test_theorem_7_is_the_chain_of_two_kinds(after_hit, after_miss, e_hit, e_miss, primary, fallback):
    """The paper times a round by its own kind: max(1, T_p) after a hit, 1 + T_b after a miss."""
    found = long_run(
        [
            Kind(e_hit, max(1, primary), (after_hit, 1 - after_hit)),
            Kind(e_miss, 1 + fallback, (after_miss, 1 - after_miss)),
        ]
    )
    rate = long_run_hit_rate(after_hit=after_hit, after_miss=after_miss)
    theorem = ssd_speedup(rate, tokens_hit=e_hit, tokens_miss=e_miss, primary=primary, fallback=fallback)
    assert found.rate == pytest.approx(theorem)


def test_three_kinds_against_rounds_drawn_one_by_one():
    kinds = [Kind(4.0, 1.0, (0.7, 0.2, 0.1)), Kind(2.5, 1.4, (0.5, 0.0, 0.5)), Kind(1.0, 0.9, (0.3, 0.6, 0.1))]
    draw, now, tokens, time = random.Random(3), 0, 0.0, 0.0
    for _ in range(100_000):
        tokens, time = tokens + kinds[now].tokens, time + kinds[now].time
        now = draw.choices(range(3), kinds[now].follows)[0]
    assert tokens / time == pytest.approx(long_run(kinds).rate, rel=0.01)


@given(st.lists(st.tuples(inside, inside, inside, inside), min_size=4, max_size=4))
def test_the_stationary_law_stays(rows):
    follows = [[value / sum(row) for value in row] for row in rows]
    law = stationary(follows)
    assert sum(law) == pytest.approx(1)
    assert [sum(law[i] * follows[i][j] for i in range(4)) for j in range(4)] == pytest.approx(law)


def test_a_kind_that_is_left_for_good_has_no_share():
    assert stationary([(1.0, 0.0), (0.5, 0.5)]) == pytest.approx([1, 0])
    assert stationary([(0.5, 0.5), (0.0, 1.0)]) == pytest.approx([0, 1])


@pytest.mark.parametrize("follows", [[(1.0, 0.0), (0.0, 1.0)], [(0.5, 0.6), (0.5, 0.5)], [(1.0,), (1.0,)]])
def test_what_is_no_single_law_is_refused(follows):
    with pytest.raises(ConfigError):
        stationary(follows)
