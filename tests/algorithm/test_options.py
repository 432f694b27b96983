"""Sampling options travel whole, and damaged ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.noise import row_key
from saguaro.algorithm.options import Sampling, decode, encode

real = st.floats(-100, 100)
tokens = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4).map(tuple)
SAMPLING = st.builds(
    Sampling, seed=st.integers(0, 2**64 - 1), choice=st.integers(0, 127), temperature=st.floats(0, 100),
    top_k=st.integers(0, 1000), top_p=st.floats(0, 1), min_p=st.floats(0, 1), repetition_penalty=st.floats(0.1, 100),
    presence_penalty=real, frequency_penalty=real, min_tokens=st.integers(0, 100),
    logit_bias=st.lists(st.tuples(st.integers(0, 2**31 - 1), real), max_size=3).map(tuple),
    bad_words=st.lists(tokens, max_size=3).map(tuple), stop_ids=tokens, grammar=st.text(max_size=9),
)  # fmt: skip


@given(SAMPLING)
def test_options_survive_their_bytes(sampling: Sampling) -> None:
    assert decode(encode(sampling)) == sampling


def test_defaults_cost_nothing() -> None:
    assert encode(Sampling()) == b"{}"
    assert not Sampling().edited
    assert not Sampling().filtered


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{", b'{"heat": 1}', b'{"top_k": "3"}', b'{"top_p": true}', b'{"top_k": 1.5}', b'{"bad_words": 3}'],
)
def test_damaged_options_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        decode(text)


@pytest.mark.parametrize(
    ("options", "edited", "filtered"),
    [
        ({"top_k": 1}, False, True), ({"top_p": 0.5}, False, True), ({"min_p": 0.1}, False, True),
        ({"min_p": 0.1, "temperature": 0.0}, False, False), ({"repetition_penalty": 0.9}, True, False),
        ({"presence_penalty": -1.0}, True, False), ({"frequency_penalty": 1.0}, True, False),
        ({"logit_bias": ((1, 2.0),)}, True, False), ({"bad_words": ((1,),)}, True, False),
        ({"min_tokens": 1}, True, False),
    ],
)  # fmt: skip
def test_what_changes_logits_and_what_filters(options: dict[str, object], edited: bool, filtered: bool) -> None:
    sampling = Sampling(**options)  # type: ignore[arg-type]
    assert (sampling.edited, sampling.filtered) == (edited, filtered)


def test_the_key_is_that_of_the_noise() -> None:
    assert Sampling(seed=5, choice=2).key(7) == row_key(5, 2, 7)
