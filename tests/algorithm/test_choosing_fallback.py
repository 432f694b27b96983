"""The joint choice: the best of all combinations, one wait for all, and Theorem 17 as a special case."""

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.choosing_fallback import Way, choose, deepening, try_another, worth_of_a_hit
from saguaro.algorithm.waiting import choose_depth, expected_tokens
from saguaro.theory.fallback import critical_batch
from saguaro.theory.speedup import ssd_speedup

VERIFY = (1.0, 1.1, 1.3, 1.6)
some_ways = st.lists(
    st.tuples(st.sampled_from(["ngram", "neural", "own_row"]), st.integers(0, 3), st.floats(1, 5), st.floats(0, 2)),
    max_size=4,
).map(lambda rows: [Way("none"), *(Way(s, 0, d, e, w, future=e / 10) for s, d, e, w in rows)])


@given(st.lists(some_ways, max_size=3), st.floats(0, 5))
def test_the_choice_is_the_best_of_all_combinations(rows, rate):
    def value(ways):
        wait = max((way.wait for way in ways), default=0.0)
        return sum(way.expected + way.future - rate * VERIFY[way.depth] for way in ways) - rate * wait

    choice = choose(rows, VERIFY, rate)
    assert choice.value == pytest.approx(max(value(ways) for ways in itertools.product(*rows)))
    assert value(choice.ways) >= choice.value - 1e-9
    assert all(way in ways for way, ways in zip(choice.ways, rows, strict=True))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=3), st.floats(0, 1), st.floats(0.01, 0.7), st.floats(0.01, 4))
def test_one_row_decides_as_the_waiting_rule_does(acceptance, first, step, rate):
    """A row alone pays the wait alone, be it for a deeper entry or for a neural proposal."""
    expected = expected_tokens(acceptance)
    waits = [0.0, *(first + step * d for d in range(len(acceptance)))]
    ways = [Way("none"), *deepening("neural", expected, depths=range(1, len(expected)), wait_seconds_by_depth=waits)]
    chosen = choose([ways], VERIFY, rate).ways[0].depth
    wanted = choose_depth(waits, VERIFY, expected, rate)
    assert expected[chosen] - rate * (waits[chosen] + VERIFY[chosen]) == pytest.approx(
        expected[wanted] - rate * (waits[wanted] + VERIFY[wanted])
    )


def test_a_wait_is_paid_once():
    """What is too dear for one missed row pays for three; rows that hit are no reason to wait."""
    hit, missed = [Way("hit", 0, 3, 3.0)], [Way("none"), Way("neural", 0, 3, 3.0, wait=1.0)]
    for misses, source in ((1, "none"), (2, "none"), (3, "neural")):
        choice = choose([hit, *[missed] * misses], [1.0] * 4, rate=5.0)
        assert {way.source for way in choice.ways[1:]} == {source}
        assert choice.wait == (1.0 if source == "neural" else 0.0)


def test_while_one_row_waits_the_others_use_the_time():
    deeper = [Way("hit", 0, 1, 1.8), Way("hit", 0, 2, 2.4, wait=0.5)]
    alone = choose([deeper], [1.0] * 3, rate=2.0)
    beside = choose([deeper, [Way("none"), Way("neural", 0, 2, 2.8, wait=0.6)]], [1.0] * 3, rate=2.0)
    assert alone.ways[0].depth == 1
    assert [way.depth for way in beside.ways] == [2, 2]
    assert beside.wait == 0.6


def test_ties_go_to_what_needs_no_wait_and_is_named_first():
    ways = [Way("none"), Way("ngram", 0, 1, 2.0), Way("own_row", 0, 1, 2.0), Way("neural", 0, 1, 3.0, wait=1.0)]
    assert choose([ways], [1.0, 2.0], rate=1.0).ways[0].source == "none"
    assert choose([ways[1:]], [1.0, 1.0], rate=1.0).ways[0].source == "ngram"
    assert choose([[Way("none"), Way("neural", 0, 1, 9.0, math.inf)]], [1.0, 1.0], rate=0.0).ways[0].source == "none"
    assert choose([], [], 1.0).value == 0


# -- Theorem 17 ---------------------------------------------------------------------------------------------------


def batch_rows(batch: int, missed: int, e_hit: float, answers: Sequence[Way]) -> list[list[Way]]:
    return [[Way("hit", 0, 1, e_hit)]] * (batch - missed) + [list(answers)] * missed


def binomial(batch: int, missed: int, hit: float) -> float:
    return math.comb(batch, missed) * (1 - hit) ** missed * hit ** (batch - missed)


SETTINGS = [(0.8, 4.0, 0.9), (0.7, 3.0, 0.5), (0.9, 4.5, 0.3), (0.95, 5.0, 0.2), (0.6, 2.5, 0.4)]


@pytest.mark.parametrize(("hit", "e_hit", "primary"), SETTINGS)
def test_at_b_star_the_criterion_is_indifferent(hit, e_hit, primary):
    """Two answers to every miss (T_b = T_p, E_hit) and (0, 1); the rate is that of the better, from Corollary 16."""
    slow, fast = Way("neural", 0, 1, e_hit, wait=primary), Way("none")
    critical = critical_batch(hit, tokens_hit=e_hit, tokens_miss=1, primary=primary)
    assert 0 < critical < math.inf
    for batch in range(1, 2 * math.ceil(critical) + 8):
        numbers = {"tokens_hit": e_hit, "primary": primary, "batch": batch}
        rate = batch * max(
            ssd_speedup(hit, tokens_miss=e_hit, fallback=primary, **numbers),
            ssd_speedup(hit, tokens_miss=1, fallback=0, **numbers),
        )
        gain = sum(
            binomial(batch, m, hit)
            * (
                choose(batch_rows(batch, m, e_hit, [slow]), [1 / batch] * 2, rate).value
                - choose(batch_rows(batch, m, e_hit, [fast]), [1 / batch] * 2, rate).value
            )
            for m in range(1, batch + 1)
        )
        if abs(batch - critical) > 1e-6:
            assert (gain > 0) == (batch < critical)


@pytest.mark.parametrize(("hit", "e_hit", "primary"), SETTINGS)
@pytest.mark.parametrize("batch", [1, 2, 4, 8, 16])
def test_choosing_in_each_round_is_never_worse_than_either_strategy(hit, e_hit, primary, batch):
    """The long-run rate of the choice, found by choosing at the rate that the choices give until it stands still."""
    answers = [Way("none"), Way("neural", 0, 1, e_hit, wait=primary)]
    numbers = {"tokens_hit": e_hit, "primary": primary, "batch": batch}
    slow = batch * ssd_speedup(hit, tokens_miss=e_hit, fallback=primary, **numbers)
    fast = batch * ssd_speedup(hit, tokens_miss=1, fallback=0, **numbers)
    rate = fast
    for _ in range(20):
        tokens = seconds = 0.0
        for m in range(batch + 1):
            choice = choose(batch_rows(batch, m, e_hit, answers), [1 / batch] * 2, rate)
            tokens += binomial(batch, m, hit) * sum(way.expected for way in choice.ways)
            seconds += binomial(batch, m, hit) * (1 + choice.wait)
        rate = tokens / seconds
    assert rate >= max(slow, fast) - 1e-9


# -- trials -------------------------------------------------------------------------------------------------------


def test_a_trial_costs_what_it_says_and_at_most_the_credit():
    rows = [
        [Way("hit", 0, 3, 3.5)],
        [Way("none"), Way("ngram", 4, 2, 2.5), Way("ngram", 1, 1, 1.2), Way("neural", 0, 3, 3.0, wait=1.0)],
    ]
    verify, rate = [1.0, 1.0, 1.0, 1.0], 2.0
    best = choose(rows, verify, rate)
    assert best.ways[1].kind == ("ngram", 4)
    trial = try_another(rows, verify, rate, best, [("own_row", 0), ("ngram", 1), ("neural", 0)], credit=1.4)
    assert trial is not None
    assert trial.kind == trial.choice.ways[1].kind == ("ngram", 1)
    assert trial.choice.ways[0].source == "hit"
    assert trial.cost == pytest.approx(1.3)
    assert try_another(rows, verify, rate, best, [("neural", 0)], credit=1.4) is None
    trial = try_another(rows, verify, rate, best, [("neural", 0), ("ngram", 1)], credit=1.6)
    assert trial is not None
    assert trial.kind == ("neural", 0)
    assert trial.cost == pytest.approx(1.5)


@given(st.floats(0, 5), st.floats(0, 5), st.floats(0, 1), st.floats(0, 0.8))
def test_a_hit_is_worth_its_round_and_what_follows(more, base, after_hit, gap):
    """The difference of two states' values: D = (r_hit - r_miss) + (p_hit,p - p_hit,b) D."""
    after_miss = max(0.0, after_hit - gap)
    worth = worth_of_a_hit(value_hit=base + more, value_miss=base, after_hit=after_hit, after_miss=after_miss)
    assert worth == pytest.approx(more + (after_hit - after_miss) * worth, abs=1e-9)
    assert worth_of_a_hit(value_hit=1, value_miss=2, after_hit=after_hit, after_miss=after_miss) == 0
