"""First come, first served, and pages that come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.options import Sampling
from saguaro.engine.scheduler import Scheduler
from saguaro.engine.sequence import Submission
from saguaro.errors import RequestRefused
from saguaro.paging import PagePool


def submission(number: int, length: int = 3, max_tokens: int = 5) -> Submission:
    return Submission(number, tuple(range(1, length + 1)), Sampling(temperature=0.0), max_tokens, frozenset())


def scheduler(pages: int = 8, rows: int = 2) -> Scheduler:
    return Scheduler(PagePool(pages, 4), max_batch=rows, max_model_len=32)


def test_rows_are_limited_and_order_is_kept() -> None:  # R05
    s = scheduler()
    for number in range(6):
        s.submit(submission(number))
    order = []
    while s.busy:
        s.admit()
        assert len(s.running) <= 2
        order.append(s.running[0].request)
        s.leave(s.running[0])
    assert order == list(range(6))
    assert s.pool.available == 8


@pytest.mark.parametrize(("length", "words"), [(0, "empty"), (32, "at most 31"), (40, "at most 31")])
def test_what_can_never_run_is_refused(length: int, words: str) -> None:
    with pytest.raises(RequestRefused, match=words):
        scheduler().submit(submission(1, length=length))


def test_what_needs_more_pages_than_there_are_is_refused() -> None:
    with pytest.raises(RequestRefused, match="memory"):
        scheduler(pages=2).submit(submission(1, length=5, max_tokens=20))


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=12))
def test_everybody_runs_once_and_pages_return(sizes: list[tuple[int, int]]) -> None:
    s = scheduler()
    for number, (length, tokens) in enumerate(sizes):
        s.submit(submission(number, length, tokens))
    seen = []
    while s.busy:
        s.admit()
        assert s.running
        for row in list(s.running):
            assert row.table.capacity >= min(len(row.tokens) + row.submission.max_tokens, 32)
            seen.append(row.request)
            s.leave(row)
    assert sorted(seen) == list(range(len(sizes)))
    assert s.pool.available == s.pool.num_pages


def test_a_waiting_request_can_be_cancelled() -> None:
    s = scheduler()
    s.submit(submission(1))
    assert s.cancel(1)
    assert not s.cancel(1)
    assert not s.busy
