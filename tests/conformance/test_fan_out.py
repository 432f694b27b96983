"""Every row of the fan-out table keeps what `FanOutPolicy` promises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.fan_out import FAN_OUT, open_fan_out

POLICIES = [name if name != "listed" else (3, 1, 0, 2) for name in FAN_OUT]


@pytest.mark.parametrize("spec", POLICIES, ids=str)
@given(st.integers(0, 16), st.integers(0, 64), st.floats(0, 1), st.booleans())
def test_counts(spec, lookahead, budget, acceptance, last_hit):
    counts = open_fan_out(spec).counts(lookahead, budget, acceptance=acceptance, last_hit=last_hit)
    assert isinstance(counts, tuple)
    assert len(counts) == lookahead + 1
    assert all(isinstance(count, int) and count >= 0 for count in counts)
    assert sum(counts) <= budget
    assert counts == open_fan_out(spec).counts(lookahead, budget, acceptance=acceptance, last_hit=last_hit)


@pytest.mark.parametrize("spec", POLICIES, ids=str)
def test_a_policy_keeps_no_memory(spec):
    policy = open_fan_out(spec)
    first = policy.counts(4, 12, acceptance=0.7, last_hit=True)
    policy.counts(2, 3, acceptance=0.1, last_hit=False)
    assert policy.counts(4, 12, acceptance=0.7, last_hit=True) == first


@pytest.mark.parametrize("spec", [spec for spec in POLICIES if spec != "none"], ids=str)
def test_a_budget_is_used(spec):
    assert sum(open_fan_out(spec).counts(3, 4, acceptance=0.8, last_hit=True)) == 4
