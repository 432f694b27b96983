"""Hints: what is learnt of them, when a row is worth it, and what a text would have suggested."""

from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.hints import DOUBT, MOST, HintOdds, hint_places
from saguaro.algorithm.suffix_index import LONGEST_SUFFIX
from saguaro.theory.step_times import PassTimes


def test_hints_that_are_wrong_are_no_longer_run() -> None:
    odds = HintOdds()
    assert odds.chance(1) == DOUBT
    assert odds.worthwhile(1, 1.0, 1, None) > 0
    for _ in range(60):
        odds.saw(1, right=False)
    assert odds.worthwhile(1, 1.0, 1, None) == 0
    assert odds.worthwhile(2, 1.0, 1, None) > 0
    for _ in range(200):
        odds.saw(1, right=True)
    assert odds.worthwhile(1, 1.0, 1, None) == MOST


def test_a_row_that_costs_more_than_it_saves_is_not_run() -> None:
    free, dear = PassTimes(), PassTimes()
    free.measured({1: 1.0, 12: 1.0})
    dear.measured({1: 1.0, 2: 1.6, 12: 7.6})
    odds = HintOdds()
    assert odds.worthwhile(3, 1.0, 1, free.seconds) == MOST
    assert odds.worthwhile(3, 1.0, 1, dear.seconds) == 0
    assert odds.worthwhile(3, 0.01, 1, free.seconds) == MOST
    assert odds.worthwhile(3, 0.2, 1, None) == 0


def test_what_a_text_would_have_suggested() -> None:
    assert hint_places([1, 2, 3, 4], [1, 2, 3, 9]) == [(1, 2), (2, 1), (3, 0)]
    assert hint_places([], [5, 6, 7]) == [(0, 0), (0, 0)]
    assert hint_places([7, 8, 7], [8]) == []


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_suggestions_by_search(prompt: list[int], output: list[int]) -> None:
    """The same found by looking through the whole text at each place."""
    for place, (size, right) in enumerate(hint_places(prompt, output), start=1):
        text = [*prompt, *output[:place]]
        matches = [
            (count, end)
            for count in range(1, min(LONGEST_SUFFIX, len(text) - 1) + 1)
            for end in range(count, len(text))
            if text[end - count : end] == text[-count:]
        ]
        best, end = max(matches, default=(0, 0))
        assert size == best
        suggested = text[end:][:MOST]
        while size and len(suggested) < MOST:
            suggested.append(suggested[len(suggested) - (len(text) - end)])
        same = [hint == own for hint, own in zip(suggested, output[place:], strict=False)]
        assert right == ([*same, False].index(False) if size else 0)
