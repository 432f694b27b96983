"""The prefix cache: a state machine in which every slot remembers what was written to it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from saguaro.paging import PagePool, PageTable, PrefixCache

SIZE = 4


class Row:
    """A sequence whose first `final` positions are written and final."""

    def __init__(self, pool: PagePool, tokens: list[int]) -> None:
        self.table = PageTable(pool)
        self.tokens = tokens
        self.final = 0
        self.filed = 0


class Cached(RuleBasedStateMachine):
    """Slots hold the whole prefix that was written there, as keys and values depend on all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(10, SIZE)
        self.cache = PrefixCache(self.pool)
        self.memory: dict[int, tuple[int, ...]] = {}
        self.rows: list[Row] = []

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=18), spare=st.integers(0, 2))
    def begin(self, tokens: list[int], spare: int) -> None:
        row = Row(self.pool, tokens)
        before, known = self.pool.available, self.cache.match(tokens)
        reused = self.cache.begin(row.table, tokens, room=len(tokens), spare=spare)
        if reused is None:
            assert self.pool.available == before
            assert row.table.pages == []
            return
        assert reused.length == known < len(tokens)
        for source, target in zip(reused.sources, reused.targets, strict=True):
            self.memory[target] = self.memory[source]
        row.final = reused.length
        self.rows.append(row)

    @rule(which=st.integers(0, 9), count=st.integers(1, 9), more=st.lists(st.integers(0, 1), max_size=4))
    def write(self, which: int, count: int, more: list[int]) -> None:
        if not self.rows:
            return
        row = self.rows[which % len(self.rows)]
        if self.pool.pages_for(len(row.tokens) + len(more)) - len(row.table.pages) <= self.pool.available:
            row.tokens = row.tokens + more
            row.table.ensure(len(row.tokens))
        for position in range(row.final, min(len(row.tokens), row.final + count)):
            self.memory[row.table.slot(position)] = tuple(row.tokens[: position + 1])
            row.final = position + 1
        row.filed = self.cache.file(row.table, row.tokens[: row.final], row.filed)

    @rule(which=st.integers(0, 9), whole=st.booleans())
    def leave(self, which: int, whole: bool) -> None:
        if not self.rows:
            return
        row = self.rows.pop(which % len(self.rows))
        self.cache.file(row.table, row.tokens[: row.final], row.filed, whole=whole)
        row.table.release()

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        assert self.pool.kept == 0

    @invariant()
    def every_row_sees_its_own_prefix(self) -> None:
        for row in self.rows:
            for position in range(row.final):
                assert self.memory[row.table.slot(position)] == tuple(row.tokens[: position + 1])

    @invariant()
    def nothing_is_lost(self) -> None:
        used = {page for row in self.rows for page in row.table.pages}
        assert len(used) == self.pool.used
        writable = [row.table.pages[i] for row in self.rows for i in range(row.final // SIZE, len(row.table.pages))]
        assert len(writable) == len(set(writable))  # nobody writes to a page that another row sees


TestCached = Cached.TestCase
TestCached.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def filled(cache: PrefixCache, tokens: list[int]) -> None:
    table = PageTable(cache.pool)
    assert cache.begin(table, tokens, room=len(tokens)) is not None
    cache.file(table, tokens, whole=True)
    table.release()


@pytest.mark.parametrize(
    ("stored", "asked", "equal"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9], 8),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 9),
        ([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 8], 7),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 9, 9], 5),
        ([1, 2], [9, 1, 2], 0),
    ],
)
def test_exactly_what_is_equal_is_reused(stored: list[int], asked: list[int], equal: int) -> None:  # B51
    cache = PrefixCache(PagePool(8, SIZE))
    filled(cache, stored)
    assert cache.match(asked) == equal
    reused = cache.begin(PageTable(cache.pool), asked, room=len(asked))
    assert reused is not None
    assert reused.length == equal


def test_R01_a_page_is_filed_under_its_own_tokens() -> None:
    """A round that crosses the edge of a page without ending on it files the page that is full, no other."""
    cache = PrefixCache(PagePool(8, 16))
    table = PageTable(cache.pool)
    cache.begin(table, list(range(14)), room=18)
    assert cache.file(table, list(range(17))) == 1
    other = PageTable(cache.pool)
    reused = cache.begin(other, [*range(16), 99, 98, 97], room=19)
    assert reused is not None
    assert reused.length == 16
    assert other.pages[0] == table.pages[0]
    assert other.pages[1] != table.pages[1]


def test_the_page_left_longest_ago_goes_first() -> None:
    cache = PrefixCache(PagePool(4, SIZE))
    filled(cache, [1, 1, 1, 1, 2])
    filled(cache, [3, 3, 3, 3, 4])
    assert cache.match([1, 1, 1, 1, 2, 0]) == 5
    table = PageTable(cache.pool)
    table.ensure(2 * SIZE)
    assert cache.match([1, 1, 1, 1, 2, 0]) == 0
    assert cache.match([3, 3, 3, 3, 4, 0]) == 5


def test_without_the_cache_nothing_is_kept() -> None:
    cache = PrefixCache(PagePool(4, SIZE), enabled=False)
    filled(cache, [1, 1, 1, 1, 2])
    assert cache.match([1, 1, 1, 1, 2, 0]) == 0
    assert cache.pool.kept == 0
