"""Definitions on made-up lists of deliveries."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.bench.load import Delivery, Load, Request, Served, closed_loop, open_loop
from saguaro.bench.load_figures import (
    delivery_gaps,
    load_figures,
    quantile,
    rates,
    token_gaps,
    total_tokens_per_second,
)
from saguaro.request import SamplingParams


def served(number, *deliveries, arrival=0.0, submitted=None):
    """A request whose tokens came as (time, tokens)."""
    request = Request(number, "x", SamplingParams())
    times = [Delivery(number, time, tokens) for time, tokens in deliveries]
    return Served(request, arrival, arrival if submitted is None else submitted, times)


def test_total_counts_the_loaded_phase_only():
    """Until 4 s: 1 + 2 + 2 tokens of one and 1 + 3 of the other; what comes after is ramp-down."""
    rows = [served(0, (1.0, 1), (2.0, 2), (4.0, 2)), served(1, (1.5, 1), (3.0, 3), (6.0, 7))]
    assert total_tokens_per_second([Load(0.0, 4.0, rows)]) == pytest.approx(9 / 4)


def test_totals_of_several_loops_are_added_up_before_dividing():
    loads = [Load(0.0, 1.0, [served(0, (1.0, 4))]), Load(10.0, 13.0, [served(1, (13.0, 2))])]
    assert total_tokens_per_second(loads) == pytest.approx(6 / 4)
    assert total_tokens_per_second([Load(1.0, 1.0, [])]) == 0.0


def test_tokens_of_a_delivery_share_the_time_since_the_one_before():
    row = served(0, (1.0, 1), (1.4, 4), (1.5, 1))
    assert token_gaps(row) == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.1])
    assert delivery_gaps(row) == pytest.approx([0.4, 0.1])
    assert token_gaps(served(0, (1.0, 1))) == delivery_gaps(served(0, (1.0, 1))) == []


def test_fields_of_a_closed_loop():
    rows = [
        served(0, (0.5, 1), (1.0, 5), arrival=0.25),
        served(1, (0.75, 1), (1.25, 1), arrival=0.25),
        served(2, (3.25, 1), (3.75, 2), arrival=1.25),
    ]
    run = load_figures([Load(0.25, 2.25, rows)], num_devices=2)
    assert run["total_tokens_per_second"] == pytest.approx(8 / 2)
    assert (run["tokens_per_second_per_device"], run["num_devices"]) == (pytest.approx(2.0), 2)
    assert (run["ttft_ms_p50"], run["ttft_ms_p99"]) == pytest.approx((500, 2000))
    assert (run["queue_ms_p50"], run["queue_ms_p99"]) == pytest.approx((500, 2000))
    assert (run["itl_ms_p50"], run["itl_ms_p99"]) == pytest.approx((100, 500))
    assert (run["gap_ms_p50"], run["gap_ms_p99"]) == pytest.approx((500, 500))
    assert run["num_requests"] == 3
    assert [run[name] for name in ("offered_rate", "achieved_rate", "kept_up", "backlog")] == [None] * 4


def test_queueing_counts_from_the_arrival_and_first_token_from_the_submission():
    row = served(0, (3.0, 1), arrival=1.0, submitted=2.5)
    run = load_figures([Load(0.0, 3.0, [row])], num_devices=1, arrivals=[1.0])
    assert (run["queue_ms_p50"], run["ttft_ms_p50"]) == pytest.approx((2000, 500))


def test_nothing_after_the_first_token():
    run = load_figures([Load(0.0, 1.0, [served(0, (1.0, 1))])], num_devices=1)
    assert (run["itl_ms_p50"], run["gap_ms_p99"]) == (None, None)


def test_rates_of_an_open_loop():
    """Four arrivals in 4 s; the last end at 4.4 s is still kept up, at 4.5 s it is not; one is open at the end."""
    arrivals = [1.0, 2.0, 3.0, 4.0]
    for last_end, kept_up in ((4.4, True), (4.5, False)):
        rows = [served(i, (at + 0.25, 1), arrival=at) for i, at in enumerate(arrivals[:3])]
        rows.append(served(3, (last_end, 1), arrival=4.0))
        [load] = [Load(10.0, 10.0 + last_end, [shifted(row, 10.0) for row in rows])]
        found = rates([load], arrivals)
        assert found["offered_rate"] == pytest.approx(1.0)
        assert found["achieved_rate"] == pytest.approx(4 / last_end)
        assert (found["kept_up"], found["backlog"]) == (kept_up, 1)


def shifted(row, by):
    deliveries = [Delivery(each.number, each.time + by, each.tokens) for each in row.deliveries]
    return Served(row.request, row.arrival + by, row.submitted + by, deliveries)


def test_an_engine_that_is_too_slow_does_not_keep_up(made_up, asked):
    """One row, a second a request: half a request a second is served in time, two are not."""
    for gap, kept_up in ((2.0, True), (0.5, False)):
        engine = made_up(rows=1)
        times = [gap * (i + 1) for i in range(20)]
        load = open_loop(engine, asked(*[1] * 20), times, clock=engine.clock, sleep=engine.sleep)
        found = rates([load], times)
        assert (found["kept_up"], found["offered_rate"]) == (kept_up, pytest.approx(1 / gap))
        assert found["achieved_rate"] <= 1.0


def test_more_rows_give_more_tokens_a_second(made_up, asked):
    """Requests of 1 + 2 + 2 tokens in three rounds of a second: 5 / 3 tokens a second for each row."""
    for rows in (1, 2, 4):
        engine = made_up(rows=rows)
        load = closed_loop(engine, asked(*[5] * 12), rows, clock=engine.clock)
        assert total_tokens_per_second([load]) == pytest.approx(rows * 5 / 3)


@given(st.lists(st.floats(0, 10), min_size=1), st.floats(0.01, 1))
def test_quantile(values, share):
    found = quantile(values, share)
    assert sum(value <= found for value in values) >= math.ceil(len(values) * share - 1e-9)
    assert sum(value < found for value in values) < len(values) * share


def test_quantiles_of_a_hundred():
    values = list(range(100, 0, -1))
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([], 0.5)) == (50, 99, None)
