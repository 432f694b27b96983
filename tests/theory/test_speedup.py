import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from saguaro.errors import ConfigError
from saguaro.theory.speedup import (
    bound,
    bounds_over_sd,
    break_even_hit_rate,
    hit_rate_by_round,
    large_batch_limit,
    long_run_hit_rate,
    same_speculator_speedup,
    sd_speedup,
    ssd_speedup,
)

probability = st.floats(0, 1)
tokens = st.floats(1, 8)
times = st.floats(0, 2)


def test_theorem_7_against_simulated_rounds():
    """Rounds drawn one by one, hits after hits and after misses with rates of their own."""
    draw = random.Random(1)
    after_hit, after_miss, e_hit, e_miss, t_p, t_b = 0.8, 0.5, 4.0, 1.0, 1.2, 0.3
    hit, total_tokens, total_time = True, 0.0, 0.0
    for _ in range(200_000):
        hit = draw.random() < (after_hit if hit else after_miss)
        total_tokens += e_hit if hit else e_miss
        total_time += max(1, t_p) if hit else 1 + t_b
    rate = long_run_hit_rate(after_hit=after_hit, after_miss=after_miss)
    predicted = ssd_speedup(rate, tokens_hit=e_hit, tokens_miss=e_miss, primary=t_p, fallback=t_b)
    assert total_tokens / total_time == pytest.approx(predicted, rel=0.01)


@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98))
def test_theorem_7_hit_rate_is_the_limit_and_the_fixed_point(after_hit, after_miss):
    rate = long_run_hit_rate(after_hit=after_hit, after_miss=after_miss)
    assert rate == pytest.approx(rate * after_hit + (1 - rate) * after_miss)
    assert hit_rate_by_round(2000, after_hit=after_hit, after_miss=after_miss)[-1] == pytest.approx(rate)


def test_hit_rate_recursion_starts_from_the_primary():
    assert hit_rate_by_round(2, after_hit=0.8, after_miss=0.5) == pytest.approx([0.8, 0.74, 0.722])


def test_no_limit_for_a_chain_that_never_mixes():
    with pytest.raises(ConfigError):
        long_run_hit_rate(after_hit=1.0, after_miss=0.0)


@given(probability, tokens, times)
def test_corollary_8_never_slower_than_sd(hit, expected, draft):
    ssd, sd = same_speculator_speedup(hit, tokens=expected, draft=draft), sd_speedup(expected, draft=draft)
    assert ssd >= sd * (1 - 1e-12)
    if hit > 1e-6 and draft > 1e-6:
        assert ssd > sd


@given(probability, st.floats(1, 8), st.floats(0, 1), tokens, st.floats(0, 0.99), times)
def test_corollary_9_bounds(hit, e_hit, share, e_sd, primary, draft):
    e_miss = 1 + share * (e_hit - 1)
    ssd = ssd_speedup(hit, tokens_hit=e_hit, tokens_miss=e_miss, primary=primary, fallback=0)
    ratio = ssd / sd_speedup(e_sd, draft=draft)
    low, high = bounds_over_sd(hit, tokens_hit=e_hit, tokens_sd=e_sd, draft=draft)
    assert low * (1 - 1e-12) <= ratio <= high * (1 + 1e-12)


@given(st.floats(0, 0.999), tokens, tokens, times, times)
def test_corollary_16_limit_and_one_row(hit, e_hit, e_miss, primary, fallback):
    numbers = {"tokens_hit": e_hit, "tokens_miss": e_miss, "fallback": fallback}
    large = ssd_speedup(hit, batch=100_000, primary=primary, **numbers)
    assert large == pytest.approx(large_batch_limit(hit, **numbers))
    assert ssd_speedup(hit, batch=1, primary=primary, **numbers) == ssd_speedup(hit, primary=primary, **numbers)


def test_corollary_16_by_hand():
    # Two rows that hit with .5: all hit in a quarter of rounds.
    speed = ssd_speedup(0.5, tokens_hit=4, tokens_miss=2, primary=0.5, fallback=1, batch=2)
    assert speed == pytest.approx(3 / (0.25 * 1 + 0.75 * 2))


@given(tokens, times, tokens, tokens, times, times)
def test_break_even_is_where_ssd_equals_sd(e_sd, draft, e_hit, e_miss, primary, fallback):
    numbers = {"tokens_hit": e_hit, "tokens_miss": e_miss, "primary": primary, "fallback": fallback}
    even, sd = break_even_hit_rate(tokens_sd=e_sd, draft=draft, **numbers), sd_speedup(e_sd, draft=draft)
    if even == 0:
        assert ssd_speedup(0, **numbers) >= sd * (1 - 1e-9)
    elif even == math.inf:
        assert ssd_speedup(1, **numbers) < sd
    else:
        assert 0 < even <= 1
        assert ssd_speedup(even, **numbers) == pytest.approx(sd)


@given(st.lists(st.tuples(tokens, st.floats(0.1, 3), times), min_size=1, max_size=9))
def test_bound_is_the_best_depth(rows):
    expected, verify, until = zip(*rows, strict=True)
    best = bound(expected, verify_seconds=verify, seconds_until_depth=until)
    values = [e / max(v, u) for e, v, u in rows]
    assert best.rate == max(values)
    assert best.depth == values.index(max(values))


@pytest.mark.parametrize(("step", "said"), [(1 / 2, 1.41), (1 / 3, 1.58), (1 / 4, 1.69)])
def test_bound_of_the_design(step, said):
    """DESIGN section 6: bound over SD at its own best K, for draft step / verify = 1/2, 1/3, 1/4 (a = .877)."""
    expected = [sum(0.877**i for i in range(d + 1)) for d in range(17)]
    until = [0.0] + [step * (d + 1) for d in range(1, 17)]  # one extend and d branch steps
    ours = bound(expected, verify_seconds=[1.0] * 17, seconds_until_depth=until)
    sd = max(sd_speedup(e, draft=step * d) for d, e in enumerate(expected))
    assert ours.rate / sd == pytest.approx(said, abs=0.006)


def test_bound_needs_times():
    with pytest.raises(ConfigError):
        bound([1.0], verify_seconds=[], seconds_until_depth=[0.0])


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_more_hits_are_never_slower(one, other):
    assume(one < other)
    numbers = {"tokens_hit": 3, "tokens_miss": 1.5, "primary": 0.9, "fallback": 0.4}
    assert ssd_speedup(one, **numbers) < ssd_speedup(other, **numbers)
