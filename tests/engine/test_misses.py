"""The note of a look-up: what the channel shows, and what became of it."""

import pytest

from saguaro.engine.misses import NO_DRAFT, UNUSED, Lookup, answered, look_up
from saguaro.request import MISS_REASONS
from saguaro.transport import TRANSPORTS
from saguaro.transport.base import Entry, Key

ROW = 2


def key(accepted: int, bonus: int, round_: int = 3) -> Key:
    return Key(7, round_, 20, accepted, bonus)


@pytest.mark.parametrize("transport", TRANSPORTS.names())
def test_what_the_draft_said_gives_the_reason(transport: str) -> None:
    target, draft = TRANSPORTS.get(transport)()
    draft.set_row(ROW, 7, caught_up=True, full_round=-1)
    assert look_up(target, ROW, key(0, 5), found=False) == Lookup(0, 5, "not_ready", 0)
    for index, outcome in enumerate([(0, 5), (0, 6), (2, 9)], start=1):
        draft.publish(ROW, index, Entry(key(*outcome), ()), fresh=True)
    draft.set_chosen(ROW, 3, 3, 3)
    assert target.find(ROW, key(0, 5)) is None
    assert look_up(target, ROW, key(0, 5), found=False) == Lookup(0, 5, "not_ready", 3, covered=True)
    assert look_up(target, ROW, key(0, 8), found=False) == Lookup(0, 8, "token_not_covered", 3)
    assert look_up(target, ROW, key(1, 5), found=False) == Lookup(1, 5, "k_not_covered", 3)
    assert look_up(target, ROW, key(3, 5), found=False) == Lookup(3, 5, "not_ready", 3)
    assert look_up(target, ROW, key(0, 8, round_=4), found=False) == Lookup(0, 8, "not_ready", 0)


def test_a_hit_has_no_reason_and_what_was_found_but_not_taken_has_its_own() -> None:
    note = Lookup(1, 5, "not_ready", 4, covered=True)
    assert answered(note, "hit", found=True).reason is None
    assert answered(note, "forced", found=True).reason == UNUSED
    assert answered(note, "neural", found=False) == note


def test_nothing_looked_up_is_no_draft() -> None:
    assert Lookup().reason == NO_DRAFT
    assert {NO_DRAFT, UNUSED} < set(MISS_REASONS)
