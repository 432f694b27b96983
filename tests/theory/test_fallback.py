import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.errors import ConfigError
from saguaro.theory.fallback import Strategy, critical_batch, fast_wins_from
from saguaro.theory.speedup import ssd_speedup


@given(st.floats(0.05, 0.95), st.floats(2, 8), st.floats(0, 1), st.floats(0.05, 1))
def test_theorem_17_is_where_the_two_meet(hit, e_hit, share, primary):
    e_miss = 1 + share * (e_hit - 1)
    critical = critical_batch(hit, tokens_hit=e_hit, tokens_miss=e_miss, primary=primary)

    def slow(batch):
        return ssd_speedup(hit, tokens_hit=e_hit, tokens_miss=e_hit, primary=primary, fallback=primary, batch=batch)

    fast = ssd_speedup(hit, tokens_hit=e_hit, tokens_miss=e_miss, primary=primary, fallback=0)
    if critical == math.inf:
        assert slow(10_000) >= fast
    elif critical > 0:
        assert slow(critical) == pytest.approx(fast)
        assert slow(critical * 0.9) > fast > slow(critical * 1.1 + 0.1)
    else:
        assert slow(0.001) <= fast * (1 + 1e-6)


@given(st.floats(2, 8), st.floats(0.1, 1))
def test_theorem_17_limit_of_certain_hits(e_hit, primary):
    limit = (1 - 1.0 / e_hit) / primary
    assert critical_batch(1 - 1e-7, tokens_hit=e_hit, tokens_miss=1, primary=primary) == pytest.approx(limit, rel=1e-3)


def test_theorem_17_at_the_papers_numbers():
    """p_hit .58 ... .67 at F = 1, E_hit about 4.5, drafting 1.1 of a verification: about one row."""
    for hit in (0.58, 0.67):
        assert 0.9 < critical_batch(hit, tokens_hit=4.5, tokens_miss=1, primary=1.1) < 1.1


def test_theorem_17_needs_a_hit_rate_inside():
    with pytest.raises(ConfigError):
        critical_batch(1.0, tokens_hit=4, tokens_miss=1, primary=0.5)


def test_own_hit_rates_keep_the_slow_fallback_longer():
    """What the theorem leaves out: random tokens lower the next round's hit rate."""
    slow = Strategy(after_hit=0.8, after_miss=0.8, tokens_hit=4, tokens_miss=4, primary=0.8, fallback=0.8)
    fast = Strategy(after_hit=0.8, after_miss=0.8, tokens_hit=4, tokens_miss=1, primary=0.8, fallback=0.0)
    honest = Strategy(after_hit=0.8, after_miss=0.4, tokens_hit=4, tokens_miss=1, primary=0.8, fallback=0.0)
    same_rate = fast_wins_from(slow, fast)
    critical = critical_batch(0.8, tokens_hit=4, tokens_miss=1, primary=0.8)
    assert same_rate == math.ceil(critical)
    own_rate = fast_wins_from(slow, honest)
    assert own_rate is None or own_rate > same_rate


def test_fast_may_never_win():
    slow = Strategy(after_hit=0.9, after_miss=0.9, tokens_hit=5, tokens_miss=5, primary=0.1, fallback=0.1)
    fast = Strategy(after_hit=0.9, after_miss=0.5, tokens_hit=5, tokens_miss=1, primary=0.1, fallback=0.0)
    assert fast_wins_from(slow, fast) is None
