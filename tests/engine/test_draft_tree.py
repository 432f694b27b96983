"""The draft's side of trees: which nodes run, what is sent, and what an accepted path leaves behind."""

import pytest

from saguaro.algorithm.odds import Guesses
from saguaro.algorithm.options import Sampling
from saguaro.engine.draft_growing import learn, plant, send_tree, siblings, tree_work
from saguaro.engine.draft_row import DraftRow
from saguaro.errors import ProtocolError
from saguaro.paging import PagePool, PrefixCache
from saguaro.protocol.messages import Admit, Configure, Decided, Taken
from saguaro.theory.step_times import PassTimes
from saguaro.transport.loopback import Loopback

SETTINGS = Configure(2, False, False, 1.0, 0, False, tree=4)


def row(settings: Configure = SETTINGS, *, pages: int = 8, max_positions: int = 64, wanted: int = 2) -> DraftRow:
    """A row of 4 tokens, all of which ran, whose target waits."""
    cache = PrefixCache(PagePool(pages, 4))
    r = DraftRow(Admit(1, 0, 0, 3, Sampling(temperature=0.0), (1, 2, 3)), cache, max_positions)
    r.caught_up = True
    r.decide(Decided(1, 0, 3, 0, 6, "pending", True, wanted, ()))
    plant(r, settings)
    assert r.prepare_tail(4) is not None
    r.kv = 4
    return r


def work(r: DraftRow, settings: Configure = SETTINGS, times: PassTimes | None = None) -> list:
    return tree_work(r, r.cache.pool, settings, spare=0, times=times or PassTimes())


def run(r: DraftRow, odds: dict[int, Guesses], settings: Configure = SETTINGS) -> list[list[int]]:
    """Run all levels; the tokens of the paths that ran, level by level."""
    learn(r, None, odds[0])
    levels = []
    while due := work(r, settings):
        levels.append([w.span.tokens[0] for w in due])
        for w in due:
            assert w.branch is not None
            w.branch.slots.append(w.span.slots[0])
            learn(r, w.branch, odds[w.span.tokens[0]])
    return levels


ODDS = {
    0: Guesses([7, 8, 9], [0.6, 0.3, 0.1]),
    7: Guesses([5, 4], [0.9, 0.1]),
    8: Guesses([5, 4], [0.5, 0.2]),
    9: Guesses([5], [0.9]),
}


def test_levels_run_as_far_as_their_children_are_wanted() -> None:
    r = row()
    learn(r, None, ODDS[0])
    due = work(r)
    assert [w.span.tokens for w in due] == [[7], [8], [9]]
    assert all((w.span.start, w.span.shared, tuple(w.span.own)) == (4, 4, ()) for w in due)
    assert len({w.span.slots[0] for w in due}) == 3


def test_the_tree_is_sent_once_and_whole() -> None:
    r, port = row(), Loopback()
    key = r.waiting
    assert key is not None
    send_tree(port, r, 0, SETTINGS)
    assert port.find(0, key) is None
    run(r, ODDS)
    send_tree(port, r, 0, SETTINGS)
    entry = port.find(0, key)
    assert entry is not None
    assert (entry.tokens, entry.parents) == ((7, 5, 8, 5), (0, 1, 0, 3))
    assert entry.reach == pytest.approx((0.6, 0.54, 0.3, 0.15))
    assert work(r) == []
    assert r.tree is not None
    assert not r.tree.whole


def test_a_tree_that_may_be_cut_is_sent_level_by_level() -> None:
    settings = Configure(2, False, False, 1.0, 0, False, tree=4, prune=True)
    r, port = row(settings), Loopback()
    assert r.waiting is not None
    learn(r, None, ODDS[0])
    send_tree(port, r, 0, settings)
    entry = port.find(0, r.waiting)
    assert entry is not None
    assert (entry.tokens, entry.parents) == ((7, 8, 9), (0, 0, 0))
    r.take(Taken(1, 0, "neural", (7, 8), (0, 0)))  # that was enough
    assert work(r, settings) == []
    r.decide(Decided(1, 1, 4, 1, 3, "none", False, 0, ()))
    assert r.tokens == [1, 2, 3, 6, 7, 3]
    assert r.missing() == [7, 3]


def test_an_accepted_path_that_ran_becomes_the_tail() -> None:
    r = row(wanted=3)
    odds = {**ODDS, 5: Guesses([2], [0.9]), 4: Guesses([2], [0.9])}
    run(r, odds, Configure(3, False, False, 1.0, 0, False, tree=5))
    assert r.tree is not None
    slots = r.tree.slots_of([7, 5])
    assert len(slots) == 2
    r.take(Taken(1, 0, "neural", (8, 7, 5), (0, 0, 2)))
    assert r.missing() == []  # nothing of a tree is run as if it stood behind the text
    sources, targets = r.decide(Decided(1, 1, 4, 3, 3, "none", False, 0, ()))
    assert r.tokens == [1, 2, 3, 6, 7, 5, 3]
    assert sources == slots
    assert targets == r.table.slots(4, 6)
    assert r.kv == 6
    assert r.missing() == [3]
    assert r.tree is None


def test_a_leaf_that_did_not_run_runs_with_the_tail() -> None:
    r = row()
    run(r, ODDS)
    r.take(Taken(1, 0, "neural", (7, 5, 8), (0, 1, 0)))
    sources, _ = r.decide(Decided(1, 1, 4, 2, 3, "none", False, 0, ()))
    assert len(sources) == 1
    assert r.missing() == [5, 3]


def test_slots_go_round() -> None:
    r = row()
    run(r, ODDS)
    used = r.cache.pool.used
    for round_ in range(1, 6):
        r.take(Taken(1, round_ - 1, "none", ()))
        r.decide(Decided(1, round_, r.length, 0, 6, "pending", True, 2, ()))
        plant(r, SETTINGS)
        assert r.prepare_tail(1) is not None
        r.kv = r.length
        run(r, ODDS)
    assert r.cache.pool.used <= used + 2  # the text grew by five tokens


def test_without_pages_the_tree_stays_small() -> None:
    r, port = row(pages=1), Loopback()
    learn(r, None, ODDS[0])
    assert work(r) == []
    send_tree(port, r, 0, Configure(2, True, False, 1.0, 0, False, tree=4))
    assert r.waiting is not None
    entry = port.find(0, r.waiting)
    assert entry is not None
    assert entry.tokens == (7, 8, 9)


def test_the_end_of_the_context_is_the_end_of_the_tree() -> None:
    r = row(max_positions=4)
    learn(r, None, ODDS[0])
    assert work(r) == []
    assert r.tree is not None
    assert r.tree.whole


def test_rows_that_are_not_worth_their_time_do_not_run() -> None:
    settings = Configure(2, False, False, 1.0, 0, False, tree=4, prune=True)
    for steep, count in ((5.0, 1), (0.01, 3)):
        times = PassTimes()
        times.measured({1: 1.0, 2: 1.0 + steep, 4: 1.0 + 3 * steep})
        r = row(settings)
        learn(r, None, ODDS[0])
        assert len(work(r, settings, times)) == count
    assert len(work(row(settings), settings)) == 0


def test_who_grows_no_tree() -> None:
    for settings in (Configure(2, False, False, 1.0, 0, False), Configure(2, False, True, 1.0, 4, False, tree=4)):
        assert row(settings).tree is None
    assert siblings(SETTINGS) == 4
    assert siblings(Configure(2, False, False, 1.0, 0, False)) == 0


def test_an_outcome_beyond_the_tree_is_refused() -> None:
    r = row()
    run(r, ODDS)
    r.take(Taken(1, 0, "neural", (7, 5, 8), (0, 1, 0)))
    with pytest.raises(ProtocolError):
        r.decide(Decided(1, 1, 4, 4, 3, "none", False, 0, ()))
