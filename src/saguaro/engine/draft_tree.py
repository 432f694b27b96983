"""The proposal tree that a row of the draft grows while the target waits, and the slots of its nodes.

Books only: no model, no channel, no clock. Tests: tests/engine/test_draft_tree.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from saguaro.algorithm.odds import Guesses
from saguaro.algorithm.proposal_tree import GrowingTree


@dataclass(slots=True)
class RowTree:
    """A tree under way. `slots` are those of nodes that ran (they have keys and values), `rooted` says that the tokens
    which may follow the committed ones are known, `sent` that the target was given the tree.
    """

    growing: GrowingTree
    slots: dict[int, int] = field(default_factory=dict)
    rooted: bool = False
    sent: bool = False

    def learn(self, node: int, guesses: Guesses) -> None:
        """What the draft thinks may follow a node (0: the committed tokens)."""
        self.rooted = True
        self.growing.add(node, guesses.tokens, guesses.odds)

    def path(self, node: int) -> tuple[list[int], list[int]]:
        """The tokens to a node, itself included, and the slots of those before it, all of which ran."""
        path = self.growing.path(node)
        return [self.growing.tokens[each] for each in path], [self.slots[each] for each in path[:-1]]

    def slots_of(self, tokens: Sequence[int]) -> list[int]:
        """Slots of the first of these tokens, as far as they are on a path that ran."""
        slots: list[int] = []
        for node in self.growing.find(tokens):
            if node not in self.slots:
                break
            slots.append(self.slots[node])
        return slots

    @property
    def whole(self) -> bool:
        """Whether it is as large as it will be, and the target still waits for it."""
        return self.rooted and not self.sent and not self.growing.frontier()
