"""Beginnings that are shared: a node with a slot has a parent with one, and no slot belongs to two."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from saguaro.drafting.prefix_tree import RECENT, Node, PrefixTree


def text_of(node: Node) -> list[int]:
    tokens = []
    while node.parent is not None:
        tokens.append(node.token)
        node = node.parent
    return tokens[::-1]


def run(tree: PrefixTree, tokens: list[int]) -> list[Node] | None:
    """What a pass over one text takes; None where there is no room."""
    tree.begin()
    leaf = tree.descend(tree.root, tokens)
    nodes = tree.missing(leaf)
    if not tree.take(nodes):
        return None
    tree.use(leaf)
    return nodes


def test_what_is_shared_runs_once() -> None:
    tree = PrefixTree(8)
    assert [node.token for node in run(tree, [1, 2, 3]) or []] == [1, 2, 3]
    assert [node.token for node in run(tree, [1, 2, 4, 5]) or []] == [4, 5]
    assert run(tree, [1, 2, 3]) == []
    assert tree.num_free == 3
    first, second = (tree.slots_to(tree.descend(tree.root, text)) for text in ([1, 2, 3], [1, 2, 4, 5]))
    assert first[:2] == second[:2]
    assert len({*first, *second}) == 5


def test_the_oldest_end_makes_room_but_not_a_recent_one() -> None:
    tree = PrefixTree(4)
    run(tree, [1, 2])
    run(tree, [1, 3])
    assert run(tree, [4, 5, 6]) is None, "both were used a moment ago"
    assert tree.num_free == 1
    for _ in range(RECENT):
        run(tree, [1, 3])
    assert run(tree, [4, 5]) is not None
    assert tree.missing(tree.descend(tree.root, [1, 3])) == []
    assert [node.token for node in tree.missing(tree.descend(tree.root, [1, 2]))] == [2]


def test_where_something_goes_on_is_recent() -> None:
    tree = PrefixTree(3)
    run(tree, [1, 2, 3])
    for _ in range(RECENT):
        tree.begin()
    assert [node.token for node in run(tree, [1, 4, 5]) or []] == [4, 5], "2 and 3 made room, 1 did not"
    assert len(tree.slots_to(tree.descend(tree.root, [1, 4, 5]))) == 3


def test_more_than_there_is_room_for_takes_nothing() -> None:
    tree = PrefixTree(4)
    assert run(tree, [1, 2, 3, 4, 5]) is None
    assert tree.num_free == 4
    assert not tree.root.children
    assert run(tree, [1, 2, 3, 4]) is not None


def test_a_pass_that_was_given_up_leaves_nothing() -> None:
    tree = PrefixTree(8)
    run(tree, [1, 2])
    taken = [*(run(tree, [1, 2, 3, 4]) or []), *(run(tree, [1, 2, 3, 5]) or [])]
    tree.drop(taken)
    assert tree.num_free == 6
    assert [node.token for node in run(tree, [1, 2, 3]) or []] == [3]


def test_long_paths_are_kept_and_right() -> None:
    tree = PrefixTree(400)
    text = list(range(300))
    run(tree, text[:150])
    tree.slots_to(tree.descend(tree.root, text[:150]))
    run(tree, text)
    for length in (300, 149, 151, 230):
        node = tree.descend(tree.root, text[:length])
        slots = []
        while node.parent is not None:
            slots.append(node.slot)
            node = node.parent
        assert tree.slots_to(tree.descend(tree.root, text[:length])) == array("i", slots[::-1])


@given(texts=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=7), max_size=60), data=st.data())
def test_slots_are_never_shared_by_two(texts: list[list[int]], data: st.DataObject) -> None:
    tree = PrefixTree(12)
    kept: list[Node] = []
    for tokens in texts:
        new = run(tree, tokens)
        if new is None:
            continue
        if data.draw(st.booleans()):
            tree.drop(new)
        kept.append(tree.descend(tree.root, tokens))  # readers hold on to nodes that have lost their slots
        if data.draw(st.booleans()):
            tree.begin()
            tree.take(tree.missing(kept[data.draw(st.integers(0, len(kept) - 1))]))
        having: dict[Node, int] = {}
        for node in kept:
            at: Node | None = node
            while at is not None and at is not tree.root:
                if at.slot is not None:
                    having[at] = at.slot
                    assert at.parent is not None
                    assert at.parent.slot is not None
                at = at.parent
        assert len(set(having.values())) == len(having) <= 12 - tree.num_free
        for node in having:
            assert len(tree.slots_to(node)) == node.depth == len(text_of(node))
