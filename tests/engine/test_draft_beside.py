"""The draft's side of chains with siblings: which nodes run, what is prepared for, what an outcome leaves behind."""

import pytest

from saguaro.algorithm.odds import Guesses
from saguaro.algorithm.options import Sampling
from saguaro.algorithm.terms import Outcome
from saguaro.engine.draft_beside import (
    known_guesses,
    learn_beside,
    listed,
    look_beside,
    positions_chosen,
    sprouts,
    start_after,
)
from saguaro.engine.draft_row import DraftRow
from saguaro.engine.draft_work import branch_work, due_at, outdated
from saguaro.engine.predicting import Predictor
from saguaro.engine.publishing import PENDING_INDEX, Publisher
from saguaro.errors import ProtocolError
from saguaro.paging import PagePool, PrefixCache
from saguaro.protocol.messages import Admit, Configure, Decided, Taken
from saguaro.theory.evidence import RunningEvidence
from saguaro.transport.loopback import Loopback

SETTINGS = Configure(3, False, True, 1.0, 5, False, tree=8, fan_out="ranked")
TOKENS, PARENTS = (5, 6, 7, 8), (0, 1, 0, 1)
GUESSES = [
    Guesses([5, 7, 3], [0.6, 0.3, 0.1]),
    Guesses([6, 8, 2], [0.5, 0.4, 0.1]),
    Guesses([9, 4, 1], [0.7, 0.2, 0.1]),
]
BESIDE = Guesses([2, 3, 4], [0.8, 0.1, 0.1])


def row(tokens: tuple[int, ...] = TOKENS, parents: tuple[int, ...] = PARENTS) -> DraftRow:
    """A row of 4 tokens whose chain 5, 6 is under verification with 7 beside 5 and 8 beside 6; all of the trunk ran."""
    r = DraftRow(Admit(1, 0, 0, 3, Sampling(temperature=0.0), (1, 2, 3)), PrefixCache(PagePool(8, 4)), 64)
    r.caught_up = True
    r.decide(Decided(1, 0, 3, 0, 4, "hit", False, len(tokens), tokens, parents))
    assert r.prepare_tail(6) is not None
    r.kv, r.ranked = 6, list(GUESSES)
    return r


def run(r: DraftRow) -> dict[int, int]:
    """Run the nodes beside the trunk; their slots."""
    look_beside(r, GUESSES)
    for probe in r.beside.values():
        [work] = branch_work(r, probe, r.cache.pool, spare=0)
        probe.slots.append(work.span.slots[0])
        learn_beside(probe, BESIDE)
    return {node: probe.slots[0] for node, probe in r.beside.items()}


def test_the_trunk_is_the_tail_and_the_others_run_beside_it() -> None:
    r = row()
    assert r.proposal == [5, 6]
    assert (r.on_trunk(2), r.on_trunk(3), r.on_trunk(4)) == (2, 0, 1)
    look_beside(r, [])
    assert r.beside == {}
    look_beside(r, GUESSES[:1])
    assert list(r.beside) == [3]  # 8 follows a token that has not run
    look_beside(r, GUESSES)
    first, second = r.beside[3], r.beside[4]
    assert (first.worth, second.worth) == (0.3, pytest.approx(0.24))
    [work] = branch_work(r, second, r.cache.pool, spare=0)
    assert (work.span.tokens, work.span.start, work.span.shared, work.span.own) == ([8], 5, 5, ())
    assert due_at(work, 6) is None  # nothing is drawn
    news = Decided(1, 1, 4, 4, 2, "none", False, 0, ())
    assert not outdated(work, news)
    [other] = branch_work(r, first, r.cache.pool, spare=0)
    assert outdated(other, news)
    assert r.unfinished(first, 3)
    learn_beside(first, BESIDE)
    assert not r.unfinished(first, 3)


def test_outcomes_of_all_nodes_are_prepared_for() -> None:
    r, p = row(), Predictor(RunningEvidence())
    p.configure(SETTINGS)
    run(r)
    guesses = known_guesses(r, GUESSES)
    assert list(guesses) == [0, 1, 2, 3, 4]
    most, likely = p.outcomes(r, guesses)
    assert most == 5
    # after the trunk .3 x .7, beside it .3 x .8 and .24 x .8; 7 and 8 are no bonus tokens any more
    assert [key for _, key in likely][:4] == [(3, 2), (2, 9), (4, 2), (0, 3)]
    assert [odds for odds, _ in likely][:3] == [pytest.approx(x) for x in (0.24, 0.21, 0.192)]
    p.configure(Configure(2, False, True, 1.0, 3, False, listed=3, fan_out="listed", tokens=(1, 0, 1)))
    most, likely = p.outcomes(r, guesses)
    assert most == 3  # the list says one after no token and one after two; siblings stand one and two deep
    assert {key for _, key in likely} == {(0, 3), (2, 9), (4, 2)}
    assert (positions_chosen(r, 2), positions_chosen(r, 3)) == (2, 5)


def test_a_branch_behind_a_sibling_sees_it() -> None:
    r = row()
    slots = run(r)
    branch = r.open_branch(Outcome(4, 2), 0.2, 5)
    assert branch is not None
    start_after(r, 4, branch)
    assert (branch.shared, branch.path, branch.lead, branch.before) == (1, (8,), (slots[4],), 2)
    branch.tokens = [9]
    first, second = branch_work(r, branch, r.cache.pool, spare=0)
    assert (first.span.tokens, first.span.start, first.span.shared, first.span.own) == ([2], 6, 5, (slots[4],))
    assert second.span.own == (slots[4], first.span.slots[0])
    assert r.after(branch) == [5, 8, 2, 9]
    trunk = r.open_branch(Outcome(2, 9), 0.2, 5)
    assert trunk is not None
    start_after(r, 2, trunk)
    assert (trunk.shared, trunk.path, trunk.before) == (2, (), 2)


def test_an_outcome_beside_the_trunk_becomes_the_tail() -> None:
    r = row()
    slots = run(r)
    branch = r.open_branch(Outcome(4, 2), 0.2, 5)
    assert branch is not None
    start_after(r, 4, branch)
    branch.slots, branch.tokens, branch.ranked = [r.reserve.take() or 0], [9], [BESIDE]
    own = list(branch.slots)
    sources, targets = r.decide(Decided(1, 1, 4, 4, 2, "hit", False, 1, (9,)))
    assert r.tokens == [1, 2, 3, 4, 5, 8, 2]
    assert (sources, targets) == ([slots[4], *own], r.table.slots(5, 7))
    assert (r.kv, r.proposal, r.missing()) == (7, [9], [9])
    assert r.ranked == [BESIDE]
    assert (r.beside, r.branches, r.shape) == ({}, {}, None)


def test_an_outcome_that_was_not_prepared_keeps_what_ran() -> None:
    r = row()
    slots = run(r)
    assert r.decide(Decided(1, 1, 4, 3, 9, "none", False, 0, ())) == ([slots[3]], r.table.slots(4, 5))
    assert (r.tokens, r.kv, r.missing()) == ([1, 2, 3, 4, 7, 9], 5, [9])
    r = row()
    assert r.decide(Decided(1, 1, 4, 4, 9, "none", False, 0, ())) == ([], [])  # 8 had not run
    assert (r.tokens, r.kv, r.missing()) == ([1, 2, 3, 4, 5, 8, 9], 5, [8, 9])
    r = row()
    assert r.decide(Decided(1, 1, 4, 2, 9, "none", False, 0, ())) == ([], [])
    assert (r.tokens, r.kv) == ([1, 2, 3, 4, 5, 6, 9], 6)
    with pytest.raises(ProtocolError):
        row().decide(Decided(1, 1, 4, 5, 9, "none", False, 0, ()))


def test_slots_go_round() -> None:
    r = row()
    run(r)
    used = r.cache.pool.used
    for round_ in range(1, 9):
        r.decide(Decided(1, round_, r.length, 0, 4, "hit", False, 4, TOKENS, PARENTS))
        assert r.prepare_tail(r.length + 2 - r.kv) is not None
        r.kv = r.length + 2
        run(r)
    assert r.cache.pool.used <= used + 3  # the text grew by eight tokens


def test_siblings_travel_with_a_branch_and_with_an_answer() -> None:
    r, port = row(), Loopback()
    publisher = Publisher(port, SETTINGS)
    branch = r.open_branch(Outcome(2, 9), 0.2, 5)
    assert branch is not None
    publisher.branch(r, branch, fresh=True)
    branch.tokens, branch.ranked = [2], [BESIDE]
    publisher.branch(r, branch, fresh=False)
    entry = port.find(0, r.key(2, 9))
    assert entry is not None
    assert entry.siblings == ((0, 3, 0.1), (0, 4, 0.1))
    r.decide(Decided(1, 1, 4, 2, 9, "hit", True, 2, ()))
    publisher.answer(r)
    assert r.waiting is not None
    assert port.entries(0, 1, 1)[0].siblings == entry.siblings
    r.proposal.append(1)
    r.guessed.append(Guesses([1, 6], [0.9, 0.1]))
    publisher.proposal(r, r.waiting)
    entry = port.find(0, r.waiting)
    assert entry is not None
    assert entry.tokens == (2, 1)
    assert entry.siblings == ((0, 3, 0.1), (0, 4, 0.1), (1, 6, pytest.approx(0.08)))
    r.take(Taken(1, 1, "hit", (2, 1, 6), (0, 1, 1)))
    assert (r.proposal, r.shape is not None, r.kv) == ([2, 1], True, 6)
    assert port._entries[0][PENDING_INDEX] == entry


def test_rounds_are_learnt_as_those_of_the_chain() -> None:
    evidence = RunningEvidence()
    p = Predictor(evidence, observe=3)
    p.configure(SETTINGS)
    p.learn(row(), Decided(1, 1, 4, 4, 2, "hit", False, 0, ()))
    [seen] = p.observer.take()
    assert (seen.sent, seen.accepted, seen.bonus) == ((5, 6), 1, 8)


def test_who_has_siblings() -> None:
    assert sprouts(SETTINGS)
    assert (listed(SETTINGS, 6), listed(Configure(3, False, True, 1.0, 5, False), 6)) == (8, 6)
    assert not sprouts(Configure(3, False, False, 1.0, 5, False, tree=8))
