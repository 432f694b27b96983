"""Text from tokens: whole characters, nothing cleaned up, stop strings over any border (B20-B22, B34, B36)."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.models.text import Detokeniser, StopStrings


@dataclass
class Pieces:
    """A tokenizer whose tokens are given bytes."""

    pieces: list[bytes]
    special_ids: frozenset[int] = frozenset()

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(
    st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode)), st.lists(st.integers(0, 50), max_size=8)
)
def test_pieces_add_up_to_the_whole_however_they_are_cut(data, places):
    pieces = cut(data, places)
    stream = Detokeniser(Pieces(pieces))
    shown = [stream.push([token]) for token in range(len(pieces))] + [stream.finish()]
    assert "".join(shown) == data.decode("utf-8", errors="replace")


def test_half_a_character_is_never_shown():
    emoji = "🌵".encode()
    stream = Detokeniser(Pieces([emoji[:1], emoji[1:3], emoji[3:]]))
    assert [stream.push([token]) for token in range(3)] == ["", "", "🌵"]
    assert stream.finish() == ""


def test_an_end_inside_a_character_gives_one_mark():
    stream = Detokeniser(Pieces([b"ok ", "🌵".encode()[:3]]))
    assert stream.push([0, 1]) == "ok "
    assert stream.finish() == "\ufffd"


def test_forty_stray_bytes_are_shown_at_once_and_not_held():
    stream = Detokeniser(Pieces([b"\x80"]))
    assert [stream.push([0]) for _ in range(40)] == ["\ufffd"] * 40
    assert stream.finish() == ""


def test_special_tokens_stay_out_of_text_also_inside_a_run_and_inside_a_character():
    euro = "€".encode()
    tokenizer = Pieces([b"a", b"<|eot|>", b"b", euro[:1], euro[1:]], special_ids=frozenset({1}))
    assert Detokeniser(tokenizer).push([0, 1, 2, 3, 1, 4]) == "ab€"
    assert Detokeniser(tokenizer, skip_special=False).push([0, 1, 2]) == "a<|eot|>b"


def test_spaces_before_punctuation_are_kept():
    assert Detokeniser(Pieces([b"Hi", b" !", b" 's"])).push([0, 1, 2]) == "Hi ! 's"


def naive(text: str, stops: list[str]) -> tuple[str, bool]:
    """The first stop to be complete, reading letter by letter; the longest of those that end together."""
    for end in range(1, len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)], True
    return text, False


@given(
    st.text("ab ", max_size=24),
    st.lists(st.text("ab ", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(0, 30), max_size=8),
)
def test_stops_do_not_depend_on_how_text_is_cut(text, stops, places):
    expected, stopped = naive(text, stops)
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    finder, shown = StopStrings(stops), ""
    for a, b in pairwise(edges):
        piece, _ = finder.push(text[a:b])
        shown += piece
        assert expected.startswith(shown), "something was shown that a stop string takes back"
    if not finder.stopped:
        shown += finder.finish()
    assert (shown, finder.stopped) == (expected, stopped)


def test_only_what_may_become_a_stop_is_held_back():
    finder = StopStrings([" ha ha"])
    assert finder.push("oh ha") == ("oh", False)
    assert finder.push(" no") == (" ha no", False)
    assert finder.push(" ha") == ("", False)
    assert finder.push(" ha and more") == ("", True)
    assert finder.push("later") == ("", True)


def test_without_stops_everything_passes():
    finder = StopStrings([])
    assert finder.push("abc") == ("abc", False)
    assert finder.finish() == ""


@pytest.mark.parametrize("stops", [["ab", "b"], ["b", "ab"]])
def test_of_stops_that_end_together_the_longer_counts(stops):
    assert StopStrings(stops).push("xab") == ("x", True)
