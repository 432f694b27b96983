"""Corollary 16 and its correction, against every pattern of hits and misses."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.errors import ConfigError
from saguaro.theory.rows import batch_speedup, misses_law, time_of_round
from saguaro.theory.speedup import ssd_speedup

rate = st.floats(0, 1)


@given(rate, st.integers(1, 6), st.floats(0, 2), st.floats(0, 0.5), st.floats(0, 0.3))
def test_time_of_a_round_against_every_pattern(hit, batch, primary, fixed, each):
    total = 0.0
    for pattern in itertools.product((True, False), repeat=batch):
        chance = math.prod(hit if found else 1 - hit for found in pattern)
        missed = pattern.count(False)
        done = [max(1.0, primary) if found else 1 + fixed + each * missed for found in pattern]
        total += chance * max(done)
    found = time_of_round(hit, batch=batch, primary=primary, fallback=lambda missed: fixed + each * missed)
    assert found == pytest.approx(total)


@given(rate, st.integers(1, 32), st.floats(1, 8), st.floats(1, 8), st.floats(0, 1), st.floats(0, 2))
def test_corollary_16_is_the_case_of_one_fallback_time(hit, batch, e_hit, e_miss, primary, fallback):
    ours = batch_speedup(
        hit, batch=batch, tokens_hit=e_hit, tokens_miss=e_miss, primary=primary, fallback=lambda missed: fallback
    )
    papers = ssd_speedup(hit, tokens_hit=e_hit, tokens_miss=e_miss, primary=primary, fallback=fallback, batch=batch)
    assert ours == pytest.approx(papers)


def test_fewer_missed_rows_cost_less():
    numbers = {"batch": 8, "tokens_hit": 4.0, "tokens_miss": 4.0, "primary": 0.9}
    whole = batch_speedup(0.8, fallback=lambda missed: 0.8, **numbers)
    own = batch_speedup(0.8, fallback=lambda missed: 0.4 + 0.05 * missed, **numbers)
    assert own > whole


@given(rate, st.integers(1, 40))
def test_the_number_of_misses_is_a_law(hit, batch):
    law = misses_law(hit, batch)
    assert sum(law) == pytest.approx(1)
    assert sum(m * share for m, share in enumerate(law)) == pytest.approx(batch * (1 - hit))


def test_no_rows():
    with pytest.raises(ConfigError):
        misses_law(0.5, 0)
