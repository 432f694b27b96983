"""Bias, penalties and bans against arithmetic written out by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.edits import edit_
from saguaro.algorithm.options import Sampling

VOCAB = 12
ids = st.lists(st.integers(0, VOCAB + 2), max_size=10)


def edited(sampling: Sampling, prompt: list[int], output: list[int], row: list[float] | None = None) -> list[float]:
    logits_V = torch.tensor(row if row is not None else [float(i) - 5 for i in range(VOCAB)])
    edit_(logits_V, sampling, prompt, output)
    return logits_V.tolist()


def by_hand(sampling: Sampling, prompt: list[int], output: list[int], row: np.ndarray) -> np.ndarray:
    """The same, token by token in float32."""
    row = row.astype(np.float32)
    for token in range(VOCAB):
        value = row[token]
        for biased, by in sampling.logit_bias:
            if biased == token:
                value += np.float32(by)
        if token in prompt or token in output:
            factor = np.float32(sampling.repetition_penalty)
            value = value / factor if value > 0 else value * factor
        said = output.count(token)
        if said:
            value -= np.float32(sampling.presence_penalty + sampling.frequency_penalty * said)
        if token in sampling.stop_ids and len(output) < sampling.min_tokens:
            value = -np.inf
        for word in sampling.bad_words:
            if word[-1] == token and list(word[:-1]) == output[len(output) - len(word) + 1 :][: len(word) - 1]:
                value = -np.inf
        row[token] = value
    return row


@given(
    ids, ids, st.floats(0.5, 2), st.sampled_from([0.0, 0.5, -1.0]), st.sampled_from([0.0, 0.25]), st.integers(0, 6),
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple), max_size=3).map(tuple), st.integers(0, 99),
)  # fmt: skip
def test_edits_equal_arithmetic_by_hand(
    prompt: list[int], output: list[int], repetition: float, presence: float, frequency: float, least: int,
    words: tuple[tuple[int, ...], ...], seed: int,
) -> None:  # fmt: skip
    row = np.random.default_rng(seed).normal(size=VOCAB).astype(np.float32)
    sampling = Sampling(
        repetition_penalty=repetition, presence_penalty=presence, frequency_penalty=frequency, min_tokens=least,
        stop_ids=(0, 3, VOCAB + 1), logit_bias=((2, 1.5), (VOCAB + 1, 3.0)), bad_words=words,
    )  # fmt: skip
    got = np.array(edited(sampling, prompt, output, row.tolist()), dtype=np.float32)
    np.testing.assert_allclose(got, by_hand(sampling, prompt, output, row), rtol=1e-6, atol=1e-6)


def test_a_ban_of_one_token_is_everywhere_and_of_a_pair_only_after_its_first() -> None:
    words = Sampling(bad_words=((4,), (7, 8)))
    assert edited(words, [7], [])[4] == -math.inf
    assert edited(words, [7], [])[8] == 3.0  # what the prompt ends with does not count
    assert edited(words, [], [1, 7])[8] == -math.inf
    assert edited(words, [], [7, 1])[8] == 3.0


def test_stop_tokens_are_held_back_until_enough_has_come() -> None:
    held = Sampling(min_tokens=2, stop_ids=(3,))
    assert edited(held, [1] * 9, [5])[3] == -math.inf
    assert edited(held, [1] * 9, [5, 6])[3] == -2.0


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"min_p": 0.5}])
def test_nothing_asked_changes_nothing(options: dict[str, float]) -> None:
    assert edited(Sampling(**options), [1, 2], [3, 3]) == [float(i) - 5 for i in range(VOCAB)]  # type: ignore[arg-type]


def test_what_a_grammar_bans_is_gone_and_the_rest_is_as_it_was() -> None:
    banned = torch.ones(VOCAB + 5, dtype=torch.bool)  # wider than a shortlist's row
    banned[[2, 7]] = False
    row = torch.tensor([float(i) - 5 for i in range(VOCAB)])
    edit_(row, Sampling(grammar="x", logit_bias=((7, 1.5),), bad_words=((2,),)), [], [], banned)
    assert row[7] == 3.5
    assert [i for i, value in enumerate(row.tolist()) if value > -math.inf] == [7]


def test_a_text_that_the_grammar_has_ended_may_end_before_min_tokens() -> None:
    held = Sampling(grammar="x", min_tokens=5, stop_ids=(3, 4))
    for free, kept in (([3, 4], [3, 4]), ([3, 6], [6]), ([6], [6])):
        banned = torch.ones(VOCAB, dtype=torch.bool)
        banned[free] = False
        row = torch.zeros(VOCAB)
        edit_(row, held, [], [1], banned)
        assert [i for i, value in enumerate(row.tolist()) if value == 0] == kept
