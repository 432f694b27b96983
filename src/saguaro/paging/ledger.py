"""The books: a pool of free pages, the table of a sequence, and a reserve of loose slots for branches.

Must not know: torch, what is stored in a page. Tests: tests/paging/test_ledger.py.
"""

from __future__ import annotations

from saguaro.errors import CapacityError


class PagePool:
    """Free pages of one process. Pages are handed out lowest number first, so that runs repeat exactly."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self._free = list(range(num_pages - 1, -1, -1))
        self._taken = [False] * num_pages

    @property
    def available(self) -> int:
        """Pages that are free."""
        return len(self._free)

    def pages_for(self, slots: int) -> int:
        """Whole pages that hold `slots` slots."""
        return -(-slots // self.page_size)

    def take(self, count: int) -> list[int]:
        """Take `count` pages.

        Raises:
            CapacityError: when fewer are free; nothing is taken then.
        """
        if count > len(self._free):
            raise CapacityError(f"{count} pages needed, {len(self._free)} of {self.num_pages} free.")
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._taken[page] = True
        return pages

    def give_back(self, pages: list[int]) -> None:
        """Return pages; each must have been taken, once."""
        for page in pages:
            assert self._taken[page], f"page {page} is returned twice"
            self._taken[page] = False
            self._free.append(page)
        self._free.sort(reverse=True)


class PageTable:
    """The pages of one sequence, in order of position."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self.pages: list[int] = []

    @property
    def capacity(self) -> int:
        """Positions that the pages held so far can store."""
        return len(self.pages) * self._pool.page_size

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
