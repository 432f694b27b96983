"""Pages: a state machine over pools, tables and reserves; no page is ever owned twice or lost."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from saguaro.errors import CapacityError
from saguaro.paging import PagePool, PageTable, SlotReserve


class Books(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(12, 4)
        self.tables = [PageTable(self.pool) for _ in range(3)]
        self.reserves = [SlotReserve(self.pool) for _ in range(2)]
        self.loose: list[list[int]] = [[], []]

    @rule(which=st.integers(0, 2), length=st.integers(0, 30))
    def grow_table(self, which: int, length: int) -> None:
        before = list(self.tables[which].pages), self.pool.available
        try:
            self.tables[which].ensure(length)
        except CapacityError:
            assert before == (self.tables[which].pages, self.pool.available)
        else:
            assert self.tables[which].capacity >= length
            slots = self.tables[which].slots(0, length)
            assert len(set(slots)) == length

    @rule(which=st.integers(0, 2))
    def release_table(self, which: int) -> None:
        self.tables[which].release()

    @rule(which=st.integers(0, 1))
    def take_slot(self, which: int) -> None:
        slot = self.reserves[which].take()
        if slot is None:
            try:
                self.reserves[which].grow_by_page()
            except CapacityError:
                assert self.pool.available == 0
                return
            slot = self.reserves[which].take()
        assert slot is not None
        self.loose[which].append(slot)

    @rule(which=st.integers(0, 1), count=st.integers(0, 5))
    def return_slots(self, which: int, count: int) -> None:
        self.reserves[which].give_back(self.loose[which][:count])
        del self.loose[which][:count]

    @rule(which=st.integers(0, 1))
    def release_reserve(self, which: int) -> None:
        self.reserves[which].release()
        self.loose[which] = []

    @invariant()
    def nothing_is_owned_twice_or_lost(self) -> None:
        owned = [page for table in self.tables for page in table.pages]
        owned += [page for reserve in self.reserves for page in reserve._pages]
        assert len(owned) == len(set(owned))
        assert len(owned) + self.pool.available == self.pool.num_pages
        used = [slot for slots in self.loose for slot in slots]
        assert len(used) == len(set(used))
        table_slots = {s for t in self.tables for s in t.slots(0, t.capacity)}
        assert not table_slots & set(used)


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_page_cannot_be_returned_twice() -> None:
    pool = PagePool(2, 4)
    pages = pool.take(1)
    pool.give_back(pages)
    with pytest.raises(AssertionError):
        pool.give_back(pages)
