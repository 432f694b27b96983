"""The books: a pool of pages with their users, the table of a sequence, and a reserve of loose slots for branches.

A page is free, or in use (by one or more), or kept: used by nobody, but with content that the prefix cache can still
find. Kept pages are available like free ones; they are taken last, the one that was left longest ago first. Must not
know: torch, what is stored in a page. Tests: tests/paging/test_ledger.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from saguaro.errors import CapacityError


class PagePool:
    """Pages of one process. Free pages are handed out lowest number first, so that runs repeat exactly."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self._free = list(range(num_pages))
        self._users = [0] * num_pages
        self._known: set[int] = set()
        self._kept: dict[int, None] = {}
        self._forget: Callable[[int], None] | None = None

    def remember_with(self, forget: Callable[[int], None]) -> None:
        """Name who is told when a kept page is taken for something else."""
        self._forget = forget

    @property
    def available(self) -> int:
        """Pages that can be taken: free ones and kept ones."""
        return len(self._free) + len(self._kept)

    @property
    def kept(self) -> int:
        """Pages that nobody uses but whose content is still known."""
        return len(self._kept)

    @property
    def used(self) -> int:
        """Pages in use."""
        return self.num_pages - self.available

    def pages_for(self, slots: int) -> int:
        """Whole pages that hold `slots` slots."""
        return -(-slots // self.page_size)

    def take(self, count: int) -> list[int]:
        """Take `count` pages.

        Raises:
            CapacityError: when fewer are available; nothing is taken then.
        """
        if count > self.available:
            raise CapacityError(f"{count} pages needed, {self.available} of {self.num_pages} available.")
        return [self._take_one() for _ in range(count)]

    def _take_one(self) -> int:
        if self._free:
            page = heapq.heappop(self._free)
        else:
            page = next(iter(self._kept))
            del self._kept[page]
            self._known.discard(page)
            assert self._forget is not None
            self._forget(page)
        self._users[page] = 1
        return page

    def share(self, pages: Sequence[int]) -> None:
        """One more user for pages that are in use or kept."""
        for page in pages:
            assert self._users[page] or page in self._kept, f"page {page} is shared but holds nothing"
            self._kept.pop(page, None)
            self._users[page] += 1

    def know(self, page: int) -> None:
        """The content of a page in use is known from now on: it is kept when its last user leaves."""
        assert self._users[page], f"page {page} is not in use"
        self._known.add(page)

    def give_back(self, pages: Sequence[int]) -> None:
        """One user fewer for each page. What a sequence leaves is forgotten from its end."""
        for page in reversed(pages):
            assert self._users[page] > 0, f"page {page} is returned twice"
            self._users[page] -= 1
            if self._users[page]:
                continue
            if page in self._known:
                self._kept[page] = None
            else:
                heapq.heappush(self._free, page)


class PageTable:
    """The pages of one sequence, in order of position."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self.pages: list[int] = []

    @property
    def capacity(self) -> int:
        """Positions that the pages held so far can store."""
        return len(self.pages) * self._pool.page_size

    def adopt(self, pages: Sequence[int]) -> None:
        """Begin with pages that the pool counts this table as a user of already."""
        assert not self.pages, "a table adopts pages before it takes any"
        self.pages = list(pages)

    def ensure(self, length: int) -> None:
        """Own enough pages for `length` positions. Raises `CapacityError` and changes nothing when there are none."""
        missing = self._pool.pages_for(length) - len(self.pages)
        if missing > 0:
            self.pages.extend(self._pool.take(missing))

    def slot(self, position: int) -> int:
        """The slot of a position that the table covers."""
        size = self._pool.page_size
        return self.pages[position // size] * size + position % size

    def slots(self, start: int, stop: int) -> list[int]:
        """The slots of positions `start` ... `stop - 1`."""
        return [self.slot(position) for position in range(start, stop)]

    def release(self) -> None:
        """Give all pages back."""
        self._pool.give_back(self.pages)
        self.pages = []


class SlotReserve:
    """Loose slots for the tokens of branches, taken page by page and reused freely within one sequence."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._pages: list[int] = []
        self._free: list[int] = []

    def grow(self, slots: int) -> None:
        """Own at least `slots` slots in all. Raises `CapacityError` and changes nothing when there are no pages."""
        missing = self._pool.pages_for(slots) - len(self._pages)
        if missing > 0:
            pages = self._pool.take(missing)
            size = self._pool.page_size
            self._pages.extend(pages)
            self._free.extend(page * size + offset for page in reversed(pages) for offset in reversed(range(size)))

    def grow_by_page(self) -> None:
        """Own one page more. Raises `CapacityError` and changes nothing when there is none."""
        self.grow((len(self._pages) + 1) * self._pool.page_size)

    def take(self) -> int | None:
        """One slot, or None when the reserve is empty."""
        return self._free.pop() if self._free else None

    def give_back(self, slots: list[int]) -> None:
        """Return slots of branches that are over."""
        self._free.extend(reversed(slots))

    def release(self) -> None:
        """Give all pages back."""
        self._pool.give_back(self._pages)
        self._pages, self._free = [], []
