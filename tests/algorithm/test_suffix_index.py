"""A look-up finds what a search of the whole text finds, and the corpus forgets."""

from hypothesis import given
from hypothesis import strategies as st

from saguaro.algorithm.suffix_index import LONGEST_SUFFIX, NO_MATCH, Corpus, SuffixIndex

tokens = st.lists(st.sampled_from([0, 1, 2, 256, 151_000]), max_size=30)


def by_search(text: list[int], suffix: list[int]) -> tuple[int, int]:
    """The longest suffix first, its last occurrence that something follows."""
    for size in range(min(LONGEST_SUFFIX, len(suffix)), 0, -1):
        for start in range(len(text) - size - 1, -1, -1):
            if text[start : start + size] == suffix[-size:]:
                return size, start + size
    return 0, 0


@given(tokens, tokens)
def test_the_longest_match_at_its_last_place(text, suffix):
    index = SuffixIndex()
    index.extend(text[:7])
    index.extend(text[7:])
    assert len(index) == len(text)
    assert index.longest_of_end() == by_search(text, text)
    assert index.longest(suffix) == by_search(text, suffix)


def test_a_text_that_repeats_itself_goes_on():
    index = SuffixIndex()
    index.extend([5, 1, 2, 3, 1, 2, 3, 1])
    assert index.longest_of_end() == (4, 5)
    assert index.following(5, 7) == (2, 3, 1, 2, 3, 1, 2)
    assert index.following(0, 2) == (5, 1)


def test_documents_are_kept_apart():
    index = SuffixIndex()
    for document in ([1, 2], [3, 4, 5]):
        index.extend(document)
        index.end_document()
    assert index.longest([9, 1]) == (1, 1)
    assert index.longest([2]) == NO_MATCH  # nothing followed it in its own document
    assert index.longest([2, 3]) == (1, 4)
    assert index.following(1, 5) == (2,)
    assert index.following(4, 5) == (4, 5)


@given(st.lists(st.lists(st.integers(0, 3), max_size=40), max_size=12), st.integers(2, 60))
def test_a_corpus_keeps_the_latest_and_stays_within_its_room(documents, room):
    corpus = Corpus(room)
    for document in documents:
        corpus.add(document)
        assert len(corpus) <= room
    if documents and 1 < len(documents[-1]) < room // 2:
        *before, last = documents[-1]
        assert corpus.longest(before, 1) == (min(LONGEST_SUFFIX, len(before)), (last,))


def test_a_corpus_forgets_what_is_old():
    corpus = Corpus(20)
    corpus.add([1, 2, 3])
    assert corpus.longest([1, 2], 3) == (2, (3,))
    for _ in range(4):
        corpus.add([7, 8, 9, 10])
    assert corpus.longest([1, 2], 3) == (0, ())
    assert corpus.longest([7, 8], 1) == (2, (9,))
