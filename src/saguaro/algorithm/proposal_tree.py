"""A proposal that is a tree (Appendix E, token trees): several guesses of a token at a time, verified in one pass.

    root ─┬─ 1 ─┬─ 3          tokens   (5, 9, 2, 7)
          │     └─ 4          parents  (0, 0, 1, 1)
          └─ 2

Nodes are numbered from 1 in an order in which a parent comes before its children; 0 is the root, the last committed
token. Node i of a chain has the parent i - 1, so that the node where a walk ends is, for a chain, the number of
accepted tokens. "Tree" alone means the draft's branches (`tree.py`); a proposal tree is what a target verifies.
Must not know: laws, tensors, models. Tests: tests/algorithm/test_proposal_tree.py.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from saguaro.errors import ProtocolError


@dataclass(frozen=True)
class ProposalTree:
    """Tokens and the parent of each; entry i belongs to node i + 1.

    Raises:
        ProtocolError: when a parent does not come before its child, or two children of a node have the same token.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents):
            raise ProtocolError(f"a proposal tree has {len(self.tokens)} tokens and {len(self.parents)} parents.")
        if any(not 0 <= parent <= i for i, parent in enumerate(self.parents)):
            raise ProtocolError("a node of a proposal tree comes before its parent.")
        if len(set(zip(self.parents, self.tokens, strict=True))) != len(self.tokens):
            raise ProtocolError("two children of one node of a proposal tree have the same token.")

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Tokens from the root to each node, itself included; entry i belongs to node i + 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 + (depths[parent - 1] if parent else 0))
        return tuple(depths)

    @property
    def levels(self) -> int:
        """Tokens of the longest path."""
        return max(self.depths, default=0)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of each node, in order; entry 0 belongs to the root."""
        found: list[list[int]] = [[] for _ in range(len(self) + 1)]
        for i, parent in enumerate(self.parents):
            found[parent].append(i + 1)
        return tuple(map(tuple, found))

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the first after the root to `node`; empty for the root."""
        found: list[int] = []
        while node:
            found.append(node)
            node = self.parents[node - 1]
        return tuple(reversed(found))

    def tokens_to(self, node: int) -> tuple[int, ...]:
        """The tokens of `path`."""
        return tuple(self.tokens[each - 1] for each in self.path(node))

    @property
    def trunk(self) -> int:
        """How many of the first nodes follow each other like a chain from the root."""
        return next((i for i, parent in enumerate(self.parents) if parent != i), len(self))

    def along(self, node: int) -> int:
        """How many nodes of the path to `node` are of the trunk."""
        trunk = self.trunk
        return sum(each <= trunk for each in self.path(node))

    def first(self, count: int) -> ProposalTree:
        """The tree of the first `count` nodes."""
        return ProposalTree(self.tokens[:count], self.parents[:count])

    def trunk_first(self) -> ProposalTree:
        """The same tree with the path of first children as nodes 1, 2, ..., and the others after it in their order."""
        order, node = list[int](), 0
        while self.children[node]:
            node = self.children[node][0]
            order.append(node)
        order += [node for node in range(1, len(self) + 1) if node not in order]
        number = {0: 0} | {node: i for i, node in enumerate(order, start=1)}
        return ProposalTree(
            tuple(self.tokens[node - 1] for node in order),
            tuple(number[self.parents[node - 1]] for node in order),
        )


def shaped(tokens: Sequence[int], parents: Sequence[int]) -> tuple[ProposalTree | None, list[int]]:
    """A proposal as it is sent: the tree, or None for a chain (which has no parents), and the tokens of its trunk."""
    if not parents:
        return None, list(tokens)
    tree = ProposalTree(tuple(tokens), tuple(parents))
    return tree, list(tokens[: tree.trunk])


def chain(tokens: Sequence[int]) -> ProposalTree:
    """The tree without siblings."""
    return ProposalTree(tuple(tokens), tuple(range(len(tokens))))


@dataclass
class GrowingTree:
    """The nodes that a walk reaches most likely, found level by level from the draft's own odds.

    A node is reached with the product of the odds on its path. That product falls from parent to child, so the best
    nodes together are a tree, and only children of nodes that are among the best now can come among them later.
    Whether a node belongs to the tree depends on the odds alone, never on a draw.

    Args:
        nodes: of the tree, at most.
        levels: tokens of its longest path, at most.
    """

    nodes: int
    levels: int
    tokens: list[int] = field(default_factory=lambda: [-1])
    parents: list[int] = field(default_factory=lambda: [-1])
    reach: list[float] = field(default_factory=lambda: [1.0])
    depths: list[int] = field(default_factory=lambda: [0])
    _best: list[tuple[float, int, int]] = field(default_factory=list)  # of each: -reach, depth, number; in order
    _closed: set[int] = field(default_factory=set)

    def add(self, parent: int, tokens: Sequence[int], odds: Sequence[float]) -> None:
        """What may follow a node (0: the root), and how likely the target's token is each of them."""
        self._closed.add(parent)
        depth = self.depths[parent] + 1
        for token, share in zip(tokens, odds, strict=True):
            reach = self.reach[parent] * min(1.0, share)
            place = (-reach, depth, len(self.tokens))
            if len(self._best) >= self.nodes and (not self._best or place > self._best[-1]):
                continue
            self.tokens.append(token)
            self.parents.append(parent)
            self.reach.append(reach)
            self.depths.append(depth)
            insort(self._best, place)
            del self._best[self.nodes :]

    def close(self, node: int) -> None:
        """Nothing will be added to a node."""
        self._closed.add(node)

    def best(self) -> list[int]:
        """The numbers of the best nodes, those with the greatest reach first and no child before its parent."""
        return [number for _, _, number in self._best]

    def frontier(self) -> list[int]:
        """Nodes among the best that nothing was added to yet and whose children are wanted, likeliest first."""
        return [node for node in self.best() if node not in self._closed and self.depths[node] < self.levels]

    def path(self, node: int) -> list[int]:
        """The nodes from the first after the root to `node`."""
        found: list[int] = []
        while node:
            found.append(node)
            node = self.parents[node]
        return found[::-1]

    def tree(self) -> tuple[ProposalTree, tuple[float, ...]]:
        """The best nodes as a tree in the order of `best`, and how likely each is reached."""
        order = self.best()
        number = {0: 0} | {node: i for i, node in enumerate(order, start=1)}
        tokens = tuple(self.tokens[node] for node in order)
        parents = tuple(number[self.parents[node]] for node in order)
        return ProposalTree(tokens, parents), tuple(self.reach[node] for node in order)

    def find(self, tokens: Sequence[int]) -> list[int]:
        """The nodes on the path that begins like `tokens`, as far as there are any."""
        found, node = list[int](), 0
        for token in tokens:
            node = next(
                (n for n in range(node + 1, len(self.tokens)) if self.parents[n] == node and self.tokens[n] == token), 0
            )
            if not node:
                break
            found.append(node)
        return found


Candidates = Callable[[tuple[int, ...]], tuple[Sequence[int], Sequence[float]]]
"""From the tokens of a path to what may follow it, best first, and the odds of each."""


def grow(candidates: Candidates, *, nodes: int, levels: int) -> tuple[ProposalTree, tuple[float, ...]]:
    """The tree of at most `nodes` nodes and `levels` levels with the greatest expected number of accepted tokens, and
    how likely each of its nodes is reached, greatest first.
    """
    growing = GrowingTree(nodes, levels)
    if levels:
        growing.add(0, *candidates(()))
    while due := growing.frontier():
        for node in due:
            growing.add(node, *candidates(tuple(growing.tokens[each] for each in growing.path(node))))
    return growing.tree()
