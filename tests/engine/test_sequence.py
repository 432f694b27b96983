"""Commit is the only way in, and a run of tokens ends at the first token that ends the request."""

import pytest

from saguaro.algorithm.options import Sampling
from saguaro.engine.sequence import Sequence, Submission
from saguaro.paging import PagePool, PageTable


def sequence(max_tokens: int = 10, max_model_len: int = 64) -> Sequence:
    submission = Submission(1, (1, 2, 3), Sampling(temperature=0.0), max_tokens, frozenset({9}))
    s = Sequence(submission, PageTable(PagePool(4, 16)), max_model_len)
    s.fits = 16
    s.tokens = [1, 2, 3]
    return s


def test_a_stop_id_inside_a_run_ends_it_there() -> None:  # B20
    s = sequence()
    assert s.commit([4, 9, 5, 6]) == [4, 9]
    assert s.finish == "stop"
    assert s.tokens == [1, 2, 3, 4, 9]


@pytest.mark.parametrize(("max_tokens", "max_model_len"), [(2, 64), (10, 5)])
def test_a_limit_inside_a_run_ends_it_there(max_tokens: int, max_model_len: int) -> None:  # B26
    s = sequence(max_tokens, max_model_len)
    assert s.commit([4, 5, 6]) == [4, 5]
    assert s.finish == "length"


def test_a_stop_id_at_the_limit_is_a_stop() -> None:  # B21
    s = sequence(max_tokens=2)
    assert s.commit([4, 9, 9]) == [4, 9]
    assert s.finish == "stop"
