"""Plans from times: what must come out where the answer is plain."""

from itertools import count

import pytest

from saguaro.engine import adapt
from saguaro.engine.adapt import measure_rows, plan_sd, plan_ssd
from saguaro.paging import PagePool


@pytest.mark.parametrize(("mean", "expected"), [(False, 1.0), (True, 2.0)])
def test_the_typical_pass_or_the_mean_of_all(monkeypatch, mean, expected):
    """The first pass does not count; then come two of a second and one that something has held up."""
    took, now, number = (9.0, 1.0, 1.0, 4.0), [0.0], count()
    monkeypatch.setattr(adapt.time, "perf_counter", lambda: now[0])

    def run(span):
        now[0] += took[next(number)]

    pool = PagePool(4, 16)
    assert measure_rows(run, pool, (1,), context=8, repeats=3, seconds=1e9, mean=mean) == {1: expected}
    assert pool.available == 4


def test_a_free_draft_is_used_to_the_full_and_a_dear_one_hardly() -> None:
    flat = dict.fromkeys(range(1, 10), 1.0)
    assert plan_sd(flat, dict.fromkeys((1, 2, 4, 8), 1e-6)).lookahead == 8
    assert plan_sd(flat, dict.fromkeys((1, 2, 4, 8), 1.0)).lookahead == 1
    assert plan_ssd(flat, dict.fromkeys((1, 2, 4, 8), 1e-6)).lookahead == 8


def test_ssd_hides_the_draft() -> None:
    verify = dict.fromkeys(range(1, 10), 1.0)
    step = dict.fromkeys((1, 2, 4, 8, 16), 0.2)
    sd, ssd = plan_sd(verify, step), plan_ssd(verify, step)
    assert ssd.tokens_per_second > sd.tokens_per_second
    assert ssd.lookahead >= sd.lookahead
    assert ssd.budget >= 8  # rows are free here


def test_rows_that_cost_limit_the_budget() -> None:
    verify = dict.fromkeys(range(1, 10), 1.0)
    step = {rows: 0.1 * rows for rows in (1, 2, 4, 8, 16)}
    found = plan_ssd(verify, step)
    assert found.budget == max(5, found.lookahead), "a branch a position"
