"""A text read token by token: always the whole text, its beginning settled for good, its end as if encoded at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.text_pairs import DIFFICULT, write_bpe

from saguaro.drafting.prefix_tree import Node, PrefixTree
from saguaro.drafting.reading import FAR, MOST, Reader, Reading
from saguaro.models.byte_tokenizer import ByteTokenizer
from saguaro.models.text_bridge import TextBridge
from saguaro.models.tokenizer import Tokenizer

TARGET = ByteTokenizer(512)
END = 256


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_bpe(folder)
    return Tokenizer.from_directory(folder)


@pytest.fixture(scope="module")
def bridge(draft: Tokenizer) -> TextBridge:
    return TextBridge(TARGET, draft, target_vocab=512, draft_vocab=draft.vocab_size)


def path(node: Node | None) -> list[int]:
    ids: list[int] = []
    while node is not None and node.parent is not None:
        ids.append(node.token)
        node = node.parent
    return ids[::-1]


def read(reader: Reader, tokens: list[int], asked: set[int]) -> list[Reading]:
    """All places; those in `asked` are encoded as soon as they are read."""
    places, last = [], reader.start
    for index, token in enumerate(tokens):
        last = Reading(last, token)
        places.append(last)
        if index in asked:
            reader.leaf(last)
    return places


@given(tokens=st.lists(st.one_of(st.integers(97, 101), st.integers(0, 511)), max_size=90), data=st.data())
def test_every_place_is_the_whole_text_and_its_beginning_stays(
    bridge: TextBridge, draft: Tokenizer, tokens: list[int], data: st.DataObject
) -> None:
    asked = set(data.draw(st.lists(st.integers(0, 90))))
    reader = Reader(bridge, PrefixTree(400))
    for length, place in enumerate(read(reader, tokens, asked), start=1):
        ids = path(reader.leaf(place))
        texts = [draft.vocabulary.tokens[draft.vocabulary.eos or 0] if t == END else "" for t in tokens[:length]]
        assert bridge.draft_bytes(ids) == b"".join(
            text.encode() if text else TARGET.token_bytes(token)
            for text, token in zip(texts, tokens[:length], strict=True)
        )
        now = path(place.node)
        assert ids[: len(now)] == now
        assert len(ids) - len(now) <= FAR + MOST


@pytest.mark.parametrize("text", DIFFICULT)
def test_token_by_token_is_as_at_once(bridge: TextBridge, draft: Tokenizer, text: str) -> None:
    """Where the draft's tokenizer gives back the text: the end is never encoded in another way than with all of it."""
    whole = (text * 4).encode()
    tokens = list(whole)
    reader = Reader(bridge, PrefixTree(4000))
    places = read(reader, tokens, set(range(len(tokens))))
    for length in range(1, len(tokens) + 1):
        assert path(reader.leaf(places[length - 1])) == bridge.encode(whole[:length]), length


def test_an_end_may_be_encoded_anew(bridge: TextBridge, draft: Tokenizer) -> None:
    reader = Reader(bridge, PrefixTree(400))
    places = read(reader, list(b"tab and"), set(range(7)))
    ids = [path(reader.leaf(place)) for place in places]
    assert any(ids[n + 1][: len(ids[n])] != ids[n] for n in range(6)), "some end changed when more came"


def test_special_tokens_settle_what_is_before_them(bridge: TextBridge, draft: Tokenizer) -> None:
    reader = Reader(bridge, PrefixTree(400))
    places = read(reader, [*b"and tab", END, *b"tab"], set())
    ids = path(reader.leaf(places[-1]))
    assert ids == [*bridge.encode(b"and tab"), draft.vocabulary.eos, *bridge.encode(b"tab")]
    assert path(places[-1].node) == ids[: len(bridge.encode(b"and tab")) + 1]
    assert places[3].node is None, "a place that nobody asked for is not encoded"


def test_a_word_without_end_is_cut_all_the_same(bridge: TextBridge) -> None:
    reader = Reader(bridge, PrefixTree(4000))
    places = read(reader, list(b"\xe6\x9d" * 500), set(range(1000)))
    assert len(places[-1].tail) <= FAR + MOST
