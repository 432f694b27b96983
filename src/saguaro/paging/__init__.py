"""Pages as integers: who owns which page, and which slot a position lives in (DESIGN D5, D6).

A pool of `num_pages` pages of `page_size` slots; a sequence owns whole pages, in order: position p lives in slot
`pages[p // page_size] * page_size + p % page_size`. Pages whose content is known may be shared by sequences that begin
alike, and outlive them until room is needed (`prefix.py`). Each process keeps its own books. Must not know: torch,
tensors, requests. Tests: tests/paging/ (hypothesis state machines).
"""

from saguaro.paging.ledger import PagePool, PageTable, SlotReserve
from saguaro.paging.prefix import PrefixCache, Reused, common_prefix

__all__ = ["PagePool", "PageTable", "PrefixCache", "Reused", "SlotReserve", "common_prefix"]
