"""The books of a short head: what stays, what follows, and who makes room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saguaro.drafting.shortlist import ColumnBook, first_ids
from saguaro.errors import ConfigError

VOCAB = 40


@given(
    size=st.integers(1, VOCAB - 1),
    share=st.floats(0, 1, exclude_max=True),
    always=st.sets(st.integers(-1, VOCAB + 3), max_size=6),
)
def test_a_list_begins_with_what_stays_and_names_no_token_twice(size, share, always):
    spare = int(size * share)
    ids, fixed = first_ids(size, vocab=VOCAB, spare=spare, always=always)
    assert len(ids) == len(set(ids)) == size
    assert fixed == size - spare
    assert set(ids) <= set(range(VOCAB))
    real = sorted(token for token in always if 0 <= token < VOCAB)
    assert set(real[:fixed]) <= set(ids[:fixed])
    if len(real) <= fixed:
        others = [token for token in ids if token not in always]
        assert others == [token for token in range(VOCAB) if token not in always][: len(others)]


def test_spare_columns_are_an_eighth_unless_said():
    assert first_ids(32, vocab=100, spare=None, always=[99]) == ([99, *range(31)], 28)
    assert first_ids(32768, vocab=151936, spare=None, always=[])[1] == 30720


@pytest.mark.parametrize(("size", "spare"), [(0, None), (8, 8), (8, -1)])
def test_sizes_that_cannot_be(size, spare):
    with pytest.raises(ConfigError, match="a shortlist"):
        first_ids(size, vocab=VOCAB, spare=spare, always=[])


class Slow:
    """The same, from the words of its docstring: a list of (token, column), the one to give way first."""

    def __init__(self, ids, fixed):
        self.fixed, self.line = set(ids[:fixed]), [(token, fixed + i) for i, token in enumerate(ids[fixed:])]

    def expect(self, tokens):
        wanted = []
        for token in reversed(tokens):
            if token not in self.fixed and token < VOCAB and token not in wanted and len(wanted) < len(self.line):
                wanted.insert(0, token)
        changed = {}
        for token in wanted:
            if token not in [t for t, _ in self.line]:
                place = next(i for i, (t, _) in enumerate(self.line) if t not in wanted)
                _, column = self.line.pop(place)
                changed[column] = token
                self.line.append((token, column))
        columns = dict(self.line)
        self.line = [pair for pair in self.line if pair[0] not in wanted] + [(t, columns[t]) for t in wanted]
        return changed


@given(
    size=st.integers(1, 12),
    spare=st.integers(0, 11),
    calls=st.lists(st.lists(st.integers(0, VOCAB + 2), max_size=20), max_size=8),
)
def test_who_was_not_expected_for_longest_makes_room(size, spare, calls):
    ids, fixed = first_ids(size, vocab=VOCAB, spare=min(spare, size - 1), always=[VOCAB - 1])
    book, slow, now = ColumnBook(ids, fixed, vocab=VOCAB), Slow(ids, fixed), list(ids)
    for tokens in calls:
        changed = book.expect(tokens)
        assert changed == slow.expect(tokens)
        assert all(column >= fixed for column in changed)
        for column, token in changed.items():
            now[column] = token
        assert len(set(now)) == size, "no token twice"
        real = [token for token in tokens if token < VOCAB]
        distinct = list(dict.fromkeys(token for token in reversed(real) if token not in ids[:fixed]))
        assert set(distinct[: size - fixed]) <= set(now)
    assert book.expect(now) == {}, "what is there needs no room"
