"""The prefix cache: sequences that begin alike share the pages of their beginning.

A tree whose edges are the tokens of one page. A full page below a node is shared as it is; of the page in which two
sequences part, the equal slots are copied, so that exactly what is equal is reused, to the token:

    root ── [t0 … t3] ── [t4 … t7] ── [t8, t9]          page size 4; the last page holds two tokens so far
                    └─── [t4, t5, u6, u7]

Only positions whose keys and values are final may be filed. Tokens themselves are compared, never hashes of them.
Must not know: torch, requests. Tests: tests/paging/test_prefix.py (a hypothesis state machine).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from saguaro.paging.ledger import PagePool, PageTable


@dataclass(eq=False, slots=True)
class Node:
    """One page and what follows it."""

    tokens: tuple[int, ...]
    page: int
    parent: Node | None
    children: dict[tuple[int, ...], Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reused:
    """What a new sequence starts with: `length` positions are there once `sources` slots are copied to `targets`."""

    length: int = 0
    sources: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()


class PrefixCache:
    """Files the pages of sequences under their tokens and finds them again. With `enabled` False it never finds any."""

    def __init__(self, pool: PagePool, *, enabled: bool = True) -> None:
        self.pool = pool
        self.enabled = enabled
        self._root = Node((), -1, None)
        self._node_of: dict[int, Node] = {}
        pool.remember_with(self._forget)

    def match(self, tokens: Sequence[int]) -> int:
        """How many leading tokens are known, at most all but the last (whose logits a sequence needs)."""
        path, _, partial = self._walk(tokens)
        return len(path) * self.pool.page_size + partial

    def begin(self, table: PageTable, tokens: Sequence[int], *, room: int, spare: int = 0) -> Reused | None:
        """Give a new sequence pages for `room` positions, those of its known beginning among them.

        Returns:
            What is reused, or None (and nothing is taken) when the pool has no room, or fewer than `spare` pages
            would be left. The copy must be made before anything else is written to any page.
        """
        path, node, partial = self._walk(tokens)
        held = [n.page for n in path] + ([node.page] if node is not None else [])
        self.pool.share(held)
        needed = self.pool.pages_for(room) - len(path)
        if needed + spare > self.pool.available:
            self.pool.give_back(held)
            return None
        table.adopt([n.page for n in path])
        table.ensure(room)
        length = len(path) * self.pool.page_size
        if node is None:
            return Reused(length)
        self.pool.give_back([node.page])
        first = node.page * self.pool.page_size
        return Reused(
            length + partial, tuple(range(first, first + partial)), tuple(table.slots(length, length + partial))
        )

    def file(self, table: PageTable, tokens: Sequence[int], start: int = 0, *, whole: bool = False) -> int:
        """File the pages of a sequence whose positions 0 ... len(tokens) - 1 are final.

        Args:
            table: its pages.
            tokens: the tokens at those positions.
            start: pages filed before (what an earlier call returned).
            whole: file the last page also when it is not full; the sequence must not write to it any more.

        Returns:
            Full pages that are filed now.
        """
        size = self.pool.page_size
        full = len(tokens) // size
        if not self.enabled or (full <= start and not whole):
            return start
        node = self._node_of[table.pages[start - 1]] if start else self._root
        for index in range(start, self.pool.pages_for(len(tokens)) if whole else full):
            node = self._file_page(table, index, tuple(tokens[index * size : (index + 1) * size]), node)
        return full

    def _file_page(self, table: PageTable, index: int, tokens: tuple[int, ...], parent: Node) -> Node:
        """File one page, or exchange it for the equal one that is filed already: what follows must not outlive it."""
        page, child = table.pages[index], parent.children.get(tokens)
        if child is None:
            child = Node(tokens, page, parent)
            parent.children[tokens] = child
            self._node_of[page] = child
            self.pool.know(page)
        elif child.page != page:
            self.pool.share([child.page])
            table.pages[index] = child.page
            self.pool.give_back([page])
        return child

    def _walk(self, tokens: Sequence[int]) -> tuple[list[Node], Node | None, int]:
        """Nodes of the full pages that are equal, then the page that is equal longest and how far."""
        size, end = self.pool.page_size, len(tokens) - 1
        path: list[Node] = []
        node = self._root
        if not self.enabled:
            return path, None, 0
        while (len(path) + 1) * size <= end:
            child = node.children.get(tuple(tokens[len(path) * size : (len(path) + 1) * size]))
            if child is None:
                break
            path.append(child)
            node = child
        rest = tuple(tokens[len(path) * size : min(end, (len(path) + 1) * size)])
        best, most = None, 0
        for part, child in node.children.items() if rest else ():
            equal = common_prefix(part, rest)
            if equal > most:
                best, most = child, equal
        return path, best, most

    def clear(self) -> None:
        """Forget all pages that nobody uses."""
        self.pool.give_back(self.pool.take(self.pool.available))

    def _forget(self, page: int) -> None:
        node = self._node_of.pop(page)
        assert node.parent is not None
        assert not node.children, "a page is forgotten before the pages that follow it"
        del node.parent.children[node.tokens]


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading tokens are equal."""
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count
