"""The draft's books of one row: outcomes, branches that become the tail, pages that run out."""

import pytest

from saguaro.algorithm.options import Sampling
from saguaro.engine.branch import Branch
from saguaro.engine.draft_row import DraftRow
from saguaro.errors import ProtocolError
from saguaro.paging import PagePool, PrefixCache, common_prefix
from saguaro.protocol.messages import Admit, Decided, Taken


def row(pages: int = 8, max_positions: int = 64) -> DraftRow:
    r = DraftRow(
        Admit(1, 0, 0, 3, Sampling(temperature=0.0), (1, 2, 3)), PrefixCache(PagePool(pages, 4)), max_positions
    )
    assert r.prepare_tail(3) is not None
    r.kv = 3
    r.reserve.grow(8)
    return r


def branch(r: DraftRow, accepted: int, bonus: int, tokens: list[int]) -> Branch:
    b = Branch(accepted, bonus, 1, list(tokens), [[t, 0] for t in tokens])
    b.slots = [r.reserve.take() or 0 for _ in tokens]
    r.branches[accepted, bonus] = b
    return b


def decided(r: DraftRow, accepted: int, bonus: int, tokens: tuple[int, ...] = (), *, pending: bool = False) -> Decided:
    return Decided(1, r.round, r.length, accepted, bonus, "hit", pending, 4, tokens)


def test_a_hit_keeps_the_branch_and_moves_its_slots() -> None:
    r = row()
    b = branch(r, 0, 7, [8, 9])
    slots = list(b.slots)
    sources, targets = r.decide(decided(r, 0, 7, (8, 9)))
    assert (sources, len(targets)) == (slots, 2)
    assert (r.tokens, r.proposal) == ([1, 2, 3, 7], [8, 9])
    assert r.kv == 5  # bonus and first token ran; the last was only drawn
    assert r.ranked == [[8, 0], [9, 0]]
    assert r.missing() == [9]
    assert r.round == 1


def test_a_hit_taken_less_deep_keeps_the_rest_as_a_guess() -> None:
    r = row()
    branch(r, 0, 7, [8, 9, 5])
    r.decide(decided(r, 0, 7, (8,)))
    assert r.proposal == [8]
    assert r.kv == 5
    assert r.ranked == [[8, 0], [9, 0]]  # ranked[1] guesses the bonus token after all accepted
    assert r.missing() == []


def test_a_miss_starts_from_the_committed_tokens() -> None:
    r = row()
    branch(r, 0, 7, [8])
    assert r.decide(decided(r, 0, 6)) == ([], [])
    assert (r.tokens, r.proposal, r.ranked, r.kv) == ([1, 2, 3, 6], [], [], 3)
    assert r.missing() == [6]


def test_a_rejection_takes_keys_and_values_back() -> None:
    r = row()
    r.decide(decided(r, 0, 4, (5, 6, 7)))
    assert r.prepare_tail(4) is not None
    r.kv = 7
    r.decide(decided(r, 1, 9))
    assert (r.tokens, r.kv) == ([1, 2, 3, 4, 5, 9], 5)


def test_pending_goes_on_from_a_branch_and_ends_with_what_was_taken() -> None:
    r = row()
    branch(r, 0, 7, [8, 9])
    r.decide(decided(r, 0, 7, pending=True))
    assert r.waiting is not None
    assert r.covered
    assert r.proposal == [8, 9]
    r.proposal.append(5)
    r.take(Taken(1, 0, "hit", (8, 9)))
    assert (r.proposal, r.waiting, r.round) == ([8, 9], None, 1)
    assert r.kv == 5


def test_an_outcome_that_does_not_fit_is_a_protocol_error() -> None:
    r = row()
    with pytest.raises(ProtocolError):
        r.decide(Decided(1, 0, 99, 0, 7, "hit", False, 4, ()))
    with pytest.raises(ProtocolError):
        r.decide(decided(r, 2, 7))


def test_a_row_without_room_is_exhausted_not_broken() -> None:
    r = row(pages=3)
    r.decide(decided(r, 0, 4, tuple(range(5, 25))))
    assert r.prepare_tail(len(r.missing())) is None
    assert r.exhausted
    short = row(max_positions=4)
    short.decide(decided(short, 0, 4, (5, 6)))
    assert short.prepare_tail(3) is None


def test_slots_come_back() -> None:
    r = row()
    for k in range(3):
        branch(r, k, 7, [8, 9])
    r.drop_branches()
    assert len({r.reserve.take() for _ in range(8)} - {None}) == 8
    r.release()
    assert r.table.pages == []


def test_common_prefix() -> None:
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([], [1]) == 0
