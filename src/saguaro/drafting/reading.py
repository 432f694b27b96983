"""What a draft with another tokenizer has read after each token of the target: its own ids of the text so far.

The end of a text may be encoded anew when more comes (`fib` + `onacci`), its beginning may not: ids before a *cut* are
settled, and bytes behind it are encoded whenever they are needed. A cut stands where both agree: what follows is
encoded the same with and without what precedes it. Special tokens cut, too. Only places that are asked
for are encoded; between them tokens are just kept. Books only. Must not know: models, tensors, how slots are shared.
Tests: tests/drafting/test_reading.py.
"""

from __future__ import annotations

from saguaro.drafting.prefix_tree import Node, PrefixTree
from saguaro.models.text_bridge import TextBridge

KEPT = 8
"""Ids at the end of a text that may still change."""
MOST = 24
"""Ids behind a cut before the next one is looked for."""
FAR = 64
"""And so many before one is made where nothing agrees, for example inside a very long word."""


class Reading:
    """A place in a text. Either `node` (the settled ids), `window` (bytes behind them) and `tail` (their ids) are
    known, or only the place before and the token that was added.
    """

    __slots__ = ("before", "node", "tail", "token", "window")

    def __init__(self, before: Reading | None, token: int) -> None:
        self.before = before
        self.token = token
        self.node: Node | None = None
        self.window = b""
        self.tail: list[int] = []


class Reader:
    """Reads the target's tokens as the draft would have written them."""

    def __init__(self, bridge: TextBridge, tree: PrefixTree) -> None:
        self._bridge = bridge
        self._tree = tree
        self.start = Reading(None, -1)
        self.start.node = tree.descend(tree.root, bridge.begin)

    def leaf(self, place: Reading) -> Node:
        """The draft's last id of the text up to a place, behind all others."""
        node = self._resolve(place)
        return self._tree.descend(node, place.tail)

    def _resolve(self, place: Reading) -> Node:
        """Encode a place, if that was not done yet."""
        added: list[int] = []
        known = place
        while known.node is None:
            added.append(known.token)
            assert known.before is not None
            known = known.before
        if known is place:
            assert place.node is not None
            return place.node
        assert known.node is not None
        node, window = known.node, known.window
        for token in reversed(added):
            special = self._bridge.special(token)
            if special is None:
                window += self._bridge.piece(token)
            else:
                node = self._tree.descend(node, [*self._bridge.encode(window), *special])
                window = b""
        tail = self._bridge.encode(window)
        if len(tail) > MOST:
            settled, length = self._cut(window, tail)
            node = self._tree.descend(node, tail[:settled])
            tail, window = tail[settled:], window[length:]
        place.node, place.window, place.tail, place.before = node, window, tail, None
        return node

    def _cut(self, window: bytes, tail: list[int]) -> tuple[int, int]:
        """How many ids to settle, and how many bytes these are; as many as can be, 0 where there is no good place."""
        if self._bridge.draft_bytes(tail) != window:  # bytes that the draft has no token for
            return (len(tail), len(window)) if len(tail) > FAR else (0, 0)
        length = len(window)
        for place in range(len(tail) - 1, 0, -1):
            length -= len(self._bridge.draft_bytes(tail[place : place + 1]))
            if place > len(tail) - KEPT or _inside_character(window, length):
                continue
            if len(tail) - place > FAR or self._bridge.encode(window[length:]) == tail[place:]:
                return place, length
        return 0, 0


def _inside_character(window: bytes, place: int) -> bool:
    return any(0x80 <= byte < 0xC0 for byte in window[place : place + 1])
