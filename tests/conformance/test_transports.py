"""Every transport: order, tags, depth, laws, rows, and a peer that does not read."""

import pytest
import torch

from saguaro.algorithm.siblings import Sibling
from saguaro.errors import ProtocolError
from saguaro.protocol.messages import FIRST_ENTRY, LAST, Release, Taken
from saguaro.transport import TRANSPORTS
from saguaro.transport.base import DraftPort, Entry, Key, TargetPort

KEY = Key(request=5, round=2, base=10, accepted=1, bonus=33)


@pytest.fixture(params=TRANSPORTS.names())
def ends(request: pytest.FixtureRequest) -> tuple[TargetPort, DraftPort]:
    return TRANSPORTS.get(request.param)()


def test_messages_arrive_in_order_and_once(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    assert not draft.has_news()
    sent = [Taken(5, r, "neural", tuple(range(r))) for r in range(20)]
    for message in sent:
        assert target.send(message)
    assert draft.has_news()
    assert draft.receive() == sent
    assert draft.receive() == []


def test_an_entry_is_found_by_its_whole_key_and_grows(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    assert target.find(1, KEY) is None
    draft.publish(1, 3, Entry(KEY, (7,)), fresh=True)
    draft.publish(1, 3, Entry(KEY, (7, 8)), fresh=False)
    assert target.find(1, KEY) == Entry(KEY, (7, 8))
    assert target.find(0, KEY) is None
    for other in (
        Key(6, 2, 10, 1, 33), Key(5, 3, 10, 1, 33), Key(5, 2, 11, 1, 33), Key(5, 2, 10, 0, 33), Key(5, 2, 10, 1, 34),
    ):  # fmt: skip
        assert target.find(1, other) is None


def test_siblings_come_with_the_tokens_of_a_chain(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    siblings = (Sibling(0, 9, 0.25), Sibling(0, 4, 0.125), Sibling(1, 5, 0.0625))
    draft.publish(1, 3, Entry(KEY, ()), fresh=True)
    draft.publish(1, 3, Entry(KEY, (7,), siblings=siblings[:2]), fresh=False)
    assert target.find(1, KEY) == Entry(KEY, (7,), siblings=siblings[:2])
    draft.publish(1, 3, Entry(KEY, (7, 8), siblings=siblings), fresh=False)
    assert target.find(1, KEY) == Entry(KEY, (7, 8), siblings=siblings)
    assert target.entries(1, 5, 2) == [Entry(KEY, (7, 8), siblings=siblings)]
    other = Key(5, 2, 10, 0, 4)
    draft.publish(1, 2, Entry(other, (3,), siblings=siblings[:1]), fresh=True)
    assert target.find(1, other) == Entry(other, (3,), siblings=siblings[:1])  # each record has its own
    newer = Key(5, 3, 12, 0, 4)
    draft.publish(1, 3, Entry(newer, (1,)), fresh=True)
    assert target.find(1, newer) == Entry(newer, (1,))


def test_a_mailbox_keeps_as_many_siblings_as_it_has_room_for() -> None:
    target, draft = TRANSPORTS.get("mailbox")()
    draft.publish(3, 7, Entry(KEY, (7,), siblings=tuple(Sibling(0, t, 0.5) for t in range(9))), fresh=True)
    found = target.find(3, KEY)
    assert found is not None
    assert [each.token for each in found.siblings] == [0, 1, 2, 3]
    with pytest.raises(ProtocolError, match="no other proposal tree"):
        draft.publish(3, 7, Entry(KEY, (7, 8), parents=(0, 0), reach=(0.5, 0.5)), fresh=True)


def test_an_entry_that_will_not_grow_is_seen_even_when_it_is_empty(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    draft.publish(1, 0, Entry(KEY, (), FIRST_ENTRY | LAST), fresh=True)
    assert target.find(1, KEY) == Entry(KEY, (), FIRST_ENTRY | LAST)


def test_of_two_records_for_one_outcome_the_first_counts(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    draft.publish(1, 1, Entry(KEY, (7,)), fresh=True)
    draft.publish(1, 0, Entry(KEY, (7, 8)), fresh=True)
    assert target.find(1, KEY) == Entry(KEY, (7, 8))


def test_a_draft_that_is_away_says_for_how_long(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    draft.beat(0.0, 0.5, 0.25)
    here = target.status()
    draft.beat(0.0, 0.5, 0.25, away=60.0)
    assert target.status().heartbeat - here.heartbeat >= 60.0
    assert (here.step_seconds, here.single_seconds) == (0.5, 0.25)


def test_a_branch_without_tokens_is_known_but_no_entry(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    assert target.chosen(1, KEY, found=False) == (0, 0, False, False)
    draft.set_row(1, 5, caught_up=True, full_round=-1)
    draft.publish(1, 1, Entry(KEY, ()), fresh=True)
    draft.set_chosen(1, 2, 3, 1)
    assert target.find(1, KEY) is None
    assert target.entries(1, 5, 2) == []
    assert target.chosen(1, KEY, found=False) == (3, 1, True, True)
    assert target.chosen(1, Key(5, 2, 10, 1, 34), found=False) == (3, 1, True, False)
    assert target.chosen(1, Key(5, 2, 10, 0, 33), found=False) == (3, 1, False, False)
    assert target.chosen(0, KEY, found=False) == (0, 0, False, False)
    draft.publish(1, 1, Entry(KEY, (7,)), fresh=False)
    assert target.find(1, KEY) == Entry(KEY, (7,))
    assert target.chosen(1, KEY, found=False) == (3, 1, True, True)


def test_what_was_chosen_belongs_to_a_round_of_a_request(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    draft.set_row(1, 5, caught_up=True, full_round=-1)
    draft.set_chosen(1, 2, 16, 64)
    assert target.chosen(1, KEY, found=False)[:2] == (16, 64)
    assert target.chosen(1, Key(5, 3, 12, 1, 33), found=False)[:2] == (0, 0)
    draft.set_row(1, 5, caught_up=True, full_round=2)
    assert target.chosen(1, KEY, found=False)[:2] == (16, 64)
    draft.set_row(1, 6, caught_up=True, full_round=-1)
    assert target.chosen(1, Key(6, 2, 10, 1, 33), found=False)[:2] == (0, 0)
    draft.set_chosen(1, 2**30, 1, 1)
    assert target.chosen(1, Key(6, 2**30, 10, 1, 33), found=False)[:2] == (1, 1)


def test_all_entries_of_a_round_are_listed_in_order(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    other = Key(5, 2, 10, 0, 4)
    draft.publish(1, 2, Entry(other, (1,)), fresh=True)
    draft.publish(1, 1, Entry(KEY, (7, 8)), fresh=True)
    draft.publish(1, 3, Entry(Key(5, 1, 8, 0, 4), (9,)), fresh=True)
    assert target.entries(1, 5, 2) == [Entry(KEY, (7, 8)), Entry(other, (1,))]
    assert target.entries(1, 6, 2) == []
    assert target.entries(0, 5, 2) == []


def test_a_record_used_again_forgets_what_it_held(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    draft.publish(0, 1, Entry(KEY, (7, 8, 9)), fresh=True)
    newer = Key(5, 3, 12, 0, 4)
    draft.publish(0, 1, Entry(newer, (1,)), fresh=True)
    assert target.find(0, KEY) is None
    assert target.find(0, newer) == Entry(newer, (1,))


def test_large_request_numbers_are_told_apart(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    big = Key(2**40 + 5, 2, 10, 1, 33)
    draft.publish(0, 1, Entry(big, (7,)), fresh=True)
    assert target.find(0, big) == Entry(big, (7,))
    assert target.find(0, KEY) is None


def test_laws_and_row_states_cross(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    laws = torch.rand(2, 16)
    for depth in range(2):
        draft.publish_laws(0, depth, laws[depth])
    assert torch.equal(target.laws(0, 2), laws)
    draft.publish_laws(0, 0, torch.tensor([0.25, 0.75]), torch.tensor([9, 2], dtype=torch.int32))
    draft.publish_laws(0, 1, torch.tensor([0.5, 0.5]))
    some = torch.zeros(2, 16)
    some[0, 9], some[0, 2], some[1, :2] = 0.25, 0.75, 0.5
    found = target.laws(0, 2)  # as wide as it need be
    assert torch.equal(torch.nn.functional.pad(found, (0, 16 - found.shape[1])), some)
    assert not target.caught_up(0, 5)
    draft.set_row(0, 5, caught_up=True, full_round=2)
    assert target.caught_up(0, 5)
    assert not target.caught_up(0, 6)
    assert target.full(0, KEY)
    assert not target.full(0, Key(5, 3, 10, 1, 33))


def test_waiting_ends_by_time_or_by_the_condition(ends: tuple[TargetPort, DraftPort]) -> None:
    target, draft = ends
    assert not target.wait(lambda: False, 0.01)
    assert target.wait(lambda: True, 0.01)
    assert not draft.wait_news(0.001)
    target.send(Release(1))
    assert draft.wait_news(0.001)


def test_the_mailbox_says_no_when_nobody_reads() -> None:
    target, draft = TRANSPORTS.get("mailbox")()
    message = Taken(1, 0, "neural", tuple(range(1000)))
    sent = 0
    while target.send(message):
        sent += 1
        assert sent < 1000
    assert len(draft.receive()) == sent
    fresh, reader = TRANSPORTS.get("mailbox")()
    held = 0
    while fresh.send(message, spare=1 << 19):
        held += 1
    assert 2 * held - 1 <= sent <= 2 * held + 1, "half of the ring was left"
    assert fresh.send(message)
    assert len(reader.receive()) == held + 1
    for _ in range(3 * sent):  # the ring goes round, frames split at its end
        assert target.send(message)
        assert draft.receive() == [message]
