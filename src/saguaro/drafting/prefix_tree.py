"""Beginnings of texts that a model has run, one slot of keys and values a token, found by the tokens themselves.

For a drafter whose own tokens are not those that the engine counts: a row's text may be encoded anew at its end, so its
slots are found by walking down from the root, whatever row, branch or earlier pass they came from. A node with a slot
has a parent with one. When there is no room, the leaf that was not used for longest gives its slot up, unless it was
used in one of the last passes: rows that need more room than there is go without instead of taking it from each other
in turns.
Books only: no model, no tensor. Must not know: text, targets, rows. Tests: tests/drafting/test_prefix_tree.py.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence

RECENT = 8
"""Passes in which a leaf must not have been used to give its slot up."""
LONG, KEPT = 64, 32
"""Paths longer by so much than what is known of them are kept for a while; so many of them."""


class Node:
    """A token behind all of its ancestors; `depth` counts them and itself, the root has 0.

    `slot` is None where its keys and values are not there (any more); `live` counts children that have a slot; `used`
    is the last pass in which it was an end.
    """

    __slots__ = ("children", "depth", "live", "parent", "slot", "token", "used")

    def __init__(self, parent: Node | None, token: int) -> None:
        self.parent = parent
        self.token = token
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.slot: int | None = None
        self.children: dict[int, Node] = {}
        self.live = 0
        self.used = 0


class PrefixTree:
    """All beginnings that are known.

    Args:
        num_slots: tokens that there is room for.
    """

    def __init__(self, num_slots: int) -> None:
        self.root = Node(None, -1)
        self.root.slot = -1
        self._free = list(range(num_slots - 1, -1, -1))
        self._leaves: OrderedDict[Node, None] = OrderedDict()  # oldest first
        self._paths: OrderedDict[Node, array[int]] = OrderedDict()
        self._pass = RECENT

    @property
    def num_free(self) -> int:
        """Slots that no node has."""
        return len(self._free)

    def begin(self) -> None:
        """A new pass."""
        self._pass += 1

    def descend(self, node: Node, tokens: Sequence[int]) -> Node:
        """The node behind some more tokens, with a slot or without."""
        for token in tokens:
            child = node.children.get(token)
            if child is None:
                child = node.children[token] = Node(node, token)
            node = child
        return node

    def missing(self, leaf: Node) -> list[Node]:
        """Nodes without a slot on the way to `leaf`, in order."""
        found = []
        at: Node | None = leaf
        while at is not None and at.slot is None:
            found.append(at)
            at = at.parent
        return found[::-1]

    def take(self, nodes: Sequence[Node]) -> bool:
        """Give a slot to each of some nodes that follow each other; where there is no room for all, none gets one and
        they are forgotten. What is used in a pass stays for that pass.
        """
        if not nodes:
            return True
        assert nodes[0].parent is not None
        self.use(nodes[0].parent)
        for count, node in enumerate(nodes):
            if not self._free and not self._evict():
                self.drop(nodes[:count])
                self.forget(nodes[count:])
                return False
            self._give(node)
        return True

    def use(self, node: Node) -> None:
        """A node is an end of this pass."""
        node.used = self._pass
        if node in self._leaves:
            self._leaves.move_to_end(node)

    def drop(self, nodes: Sequence[Node]) -> None:
        """Take slots back, of the nodes given last first: a pass was given up."""
        for node in reversed(nodes):
            if node.slot is not None and not node.live:
                self._take_back(node)

    def forget(self, nodes: Sequence[Node]) -> None:
        """Nodes that will get no slot."""
        for node in nodes:
            self._detach(node)

    def slots_to(self, node: Node) -> array[int]:
        """Slots of all nodes from the first below the root to `node`."""
        chain: list[int] = []
        at = node
        while at is not self.root and at not in self._paths:
            assert at.slot is not None
            assert at.parent is not None
            chain.append(at.slot)
            at = at.parent
        path = self._paths.get(at, array("i")) + array("i", reversed(chain))
        if len(chain) >= LONG:
            self._paths[node] = path
            if len(self._paths) > KEPT:
                self._paths.popitem(last=False)
        return path

    def _give(self, node: Node) -> None:
        parent = node.parent
        assert parent is not None
        node.slot = self._free.pop()
        node.used = self._pass
        parent.children.setdefault(node.token, node)
        parent.live += 1
        self._leaves.pop(parent, None)
        self._leaves[node] = None

    def _evict(self) -> bool:
        oldest = next(iter(self._leaves), None)
        if oldest is None or self._pass - oldest.used < RECENT:
            return False
        self._take_back(oldest)
        return True

    def _take_back(self, node: Node) -> None:
        """The slot of a leaf is free again; its parent may be a leaf then, as old as it was or newer."""
        parent = node.parent
        assert parent is not None
        assert node.slot is not None
        self._free.append(node.slot)
        node.slot = None
        self._leaves.pop(node, None)
        self._paths.pop(node, None)
        self._detach(node)
        parent.live -= 1
        if not parent.live and parent is not self.root:
            self._leaves[parent] = None
            self._leaves.move_to_end(parent, last=parent.used > node.used)
            parent.used = max(parent.used, node.used)

    def _detach(self, node: Node) -> None:
        if node.parent is not None and node.parent.children.get(node.token) is node:
            del node.parent.children[node.token]
