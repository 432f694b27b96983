"""The ways of real rows: what is offered when, and that running estimates steer the choice."""

from __future__ import annotations

from typing import Any

import pytest

from saguaro.algorithm.options import Sampling
from saguaro.algorithm.waiting import choose_depth, expected_tokens
from saguaro.engine.answers import TRIAL_AFTER
from saguaro.engine.choosing import Chooser, Open
from saguaro.engine.metrics import Estimates
from saguaro.engine.reading import DraftReader
from saguaro.engine.sequence import Proposed, Sequence, Submission
from saguaro.paging import PagePool, PageTable
from saguaro.transport.base import DraftStatus, Entry, Key

REPEATING = [1, 2, 3, 4, 1, 2, 3]
ONCE = [1, 2, 3, 4, 5, 6, 7]


class Port:
    """A draft with a step of so many seconds, and branches."""

    local = False

    def __init__(self, step: float, branches: tuple[Entry, ...] = ()) -> None:
        self.step, self.branches = step, branches

    def status(self) -> DraftStatus:
        return DraftStatus(self.step, 0.0, 0.0, 0.0, self.step)

    def entries(self, row: int, request: int, round_: int) -> list[Entry]:
        return list(self.branches)


def chooser(fallback: str, *, step: float = 0.02, fixed: bool = False, **more: Any) -> Chooser:
    estimates = Estimates(16)
    estimates.verify.measured({1: 0.1, 2: 0.103, 4: 0.11, 8: 0.125, 16: 0.2})
    reader = DraftReader(64)
    reader.port = Port(step, **more)  # type: ignore[assignment]
    made = Chooser(estimates, reader, 64, None)
    made.configure(fallback, fixed=fixed, branches=True, rejection=False)
    for _ in range(200):
        estimates.round_took(2, 0.12)
    return made


def opened(tokens: list[int] = ONCE, *, limit: int = 4, rejected: tuple[int, ...] = (), **fields: Any) -> Open:
    submission = Submission(1, tuple(tokens[:1]), Sampling(), 100, frozenset())
    s = Sequence(submission, PageTable(PagePool(4, 16)), 64, tokens=list(tokens))
    return Open(s, Key(1, 3, 5, 0, tokens[-1]), limit, Proposed(rejected, "hit"), ready=True, **fields)


def source(c: Chooser, o: Open) -> str:
    c.choose([o], 1, 0)
    return o.way.source


@pytest.mark.parametrize("step", [0.001, 0.02, 0.05, 0.3])
def test_a_row_alone_waits_for_the_draft_as_long_as_the_waiting_rule_says(step: float) -> None:
    c, o = chooser("neural", step=step), opened()
    c.choose([o], 1, 0)
    e = c.estimates
    verify = [e.verify_seconds(d + 1) for d in range(5)]
    wanted = choose_depth([d * step for d in range(5)], verify, expected_tokens(e.acceptance(4)), e.rate())
    assert o.way.depth == wanted
    assert o.way.source == ("neural" if wanted else "none")


def test_rows_that_miss_together_share_the_wait() -> None:
    c = chooser("neural", step=0.03)
    for _ in range(400):
        c.estimates.round_took(8, 0.15, 4)  # a batch whose seconds are dear
    rows = [opened(covered=True, cached=4, entry=Entry(Key(1, 3, 5, 0, 7), (1, 2, 3, 4))) for _ in range(4)]
    alone, together = [*rows[:3], opened()], [opened() for _ in range(4)]
    c.choose(alone, 4, 6)
    assert alone[3].way.source == "none"
    assert [o.way.source for o in alone[:3]] == ["hit"] * 3
    c.choose(together, 4, 6)
    assert {o.way.source for o in together} == {"neural"}


def test_what_matches_well_is_taken_and_what_fails_is_given_up() -> None:
    c = chooser("ngram")
    assert source(c, opened()) == "none"
    o = opened(REPEATING)
    assert source(c, o) == "ngram"
    assert (o.way.grade, o.offers[0].proposal.tokens) == (3, (4, 1, 2, 3))
    for _ in range(60):
        c.estimates.verified(4, 0, o.way.kind)
    assert source(c, opened(REPEATING)) == "none"
    assert c.estimates.acceptance(4) == [0.8] * 4  # the draft's own is another estimate


def test_useless_tokens_are_not_worth_a_row() -> None:
    assert source(chooser("random"), opened()) == "none"
    assert source(chooser("random", fixed=True), opened()) == "random"


def test_adaptive_takes_the_best_of_all() -> None:
    branch = Entry(Key(1, 3, 5, 0, 9), (50, 51, 52, 53))
    assert source(chooser("adaptive", step=0.001), opened(REPEATING)) == "neural"
    assert source(chooser("adaptive", step=0.3), opened(REPEATING)) == "ngram"
    assert source(chooser("adaptive", step=0.3), opened()) == "none"
    c = chooser("adaptive", step=0.3, branches=(branch,))
    for _ in range(30):
        c.estimates.verified(4, 4, ("own_row", 0))
    o = opened()
    assert source(c, o) == "own_row"
    assert o.way.depth == 4
    for _ in range(200):
        c.estimates.verified(4, 0, ("own_row", 0))
    assert source(c, opened()) == "none"


def failing(rounds: int) -> list[str]:
    """What is chosen in so many misses when the matching text never goes on as it did."""
    c, seen = chooser("adaptive", step=0.3), []
    for _ in range(rounds):
        o = opened(REPEATING)
        seen.append(source(c, o))
        c.estimates.verified(o.way.depth, 0, o.way.kind)
    return seen


def test_what_was_given_up_is_tried_now_and_then() -> None:
    seen = failing(1200)
    assert seen[0] == "ngram"
    assert 2 <= seen[400:].count("ngram") <= 100
    assert seen[400:].count("none") > 700
    assert failing(1200) == seen


def test_without_a_clock_everything_is_offered_in_full() -> None:
    c, hit = chooser("adaptive", fixed=True), opened(covered=True, cached=2, entry=Entry(Key(1, 3, 5, 0, 7), (1, 2)))
    assert (source(c, hit), hit.way.depth) == ("hit", 4)
    miss = opened()
    assert (source(c, miss), miss.way.depth) == ("neural", 4)
    miss = opened(REPEATING, limit=3)
    miss.ready = False
    assert (source(c, miss), miss.way.depth) == ("ngram", 3)
    assert source(c, opened(limit=0)) == "none"


def test_under_rejection_what_was_drawn_is_proposed() -> None:
    c = chooser("neural", step=0.3)
    c.configure("neural", fixed=False, branches=True, rejection=True)
    for _ in range(200):
        c.estimates.verified(4, 0)  # no drafted token is worth a row
    entry = Entry(Key(1, 3, 5, 0, 7), (1, 2))
    o = opened(covered=True, cached=2, entry=entry)
    assert (source(c, o), o.way.depth) == ("hit", 2)
    c.configure("neural", fixed=False, branches=True, rejection=False)
    assert (source(c, o), o.way.depth) == ("hit", 0)


def test_what_a_grammar_makes_certain_needs_no_draft() -> None:
    c, o = chooser("adaptive", step=0.3), opened(forced=(8, 9))
    assert (source(c, o), o.way.depth) == ("forced", 2)
    c, o = chooser("adaptive", step=0.001), opened(forced=(8, 9))
    assert (source(c, o), o.way.depth) == ("neural", 4)


@pytest.mark.parametrize(("deep", "step"), [(1, 0.2), (1, 0.001), (2, 0.01), (4, 0.02)])
def test_a_lone_hit_goes_on_at_once_as_the_whole_choice_would_have_it(deep: int, step: float) -> None:
    """The same depth and, once the books are kept, the same books; deeper than what is there where that pays."""
    quick, whole = chooser("adaptive", step=step), chooser("adaptive", step=step)
    whole._at_once = lambda o: None  # type: ignore[method-assign]
    entry = Entry(Key(1, 3, 5, 0, 7), tuple(range(deep)))
    for _ in range(40):
        ways = []
        for each in (quick, whole):
            o = opened(limit=4, covered=True, cached=deep, entry=entry)
            wait = each.choose([o], 1, 0)
            ways.append((o.way.source, o.way.depth, o.way.expected, wait))
        assert ways[0] == ways[1]
    quick._keep_books()
    found, wanted = (each.estimates.answers.statistics(0.2) for each in (quick, whole))
    assert found == wanted
    assert quick.estimates.answers.credit == pytest.approx(whole.estimates.answers.credit)
    values = [{hit: each.value for hit, each in c.estimates.answers._values.items()} for c in (quick, whole)]
    assert values[0] == pytest.approx(values[1])


def test_sd_asks_as_deep_as_the_whole_choice_would() -> None:
    for step in (0.001, 0.02, 0.05, 0.3):
        ways = []
        for shortcut in (True, False):
            c = chooser("neural", step=step)
            c.configure("neural", fixed=False, branches=False, rejection=False)
            if not shortcut:
                c._at_once = lambda o: None  # type: ignore[method-assign]
            o = opened()
            ways.append((c.choose([o], 1, 0), o.way))
        assert ways[0] == ways[1]


def test_a_trial_pays_for_the_wait_that_it_really_took() -> None:
    """A wait longer than expected leaves a debt, and nothing is tried until it is earned back."""
    c = chooser("adaptive", step=0.05)
    answers = c.estimates.answers
    answers.earned(1e9)
    most = answers.credit
    for _ in range(2 * TRIAL_AFTER):
        expected = c.choose([opened(), opened()], 2, 2)
        if answers.trials["neural"]:
            break
        c.waited(expected, 1.0, 2)  # no trial: the wait is nobody's debt
        assert answers.credit == most
    assert answers.trials == {"neural": 1}
    assert expected > 0
    left = answers.credit
    c.waited(expected, expected + 2.0, 2)
    assert answers.credit == pytest.approx(left - 2.0 * c.estimates.rate(2, 3.0))
    assert answers.credit < 0
    for _ in range(TRIAL_AFTER):
        c.choose([opened(), opened()], 2, 2)
    assert answers.trials == {"neural": 1}


def test_only_a_fallback_that_chooses_saves_for_trials() -> None:
    for fallback, saves in (("none", False), ("own_row", False), ("adaptive", True)):
        c = chooser(fallback)
        for _ in range(5):
            c.choose([opened(), opened()], 2, 2)
        assert (c.estimates.answers.credit > 0) is saves
