"""The books of the choice: what was worth how much, what is due for a trial, what a trial may cost."""

import pytest

from saguaro.algorithm.choosing_fallback import Choice, Trial, Way
from saguaro.engine.answers import ENOUGH, MOST_CREDIT, TRIAL_AFTER, TRIAL_SHARE, Answers
from saguaro.theory.fallback import critical_batch

HIT, NONE, NGRAM, NEURAL = Way("hit", 0, 3, 3.5), Way("none"), Way("ngram", 2, 2, 2.0), Way("neural", 0, 3, 3.0, 0.5)


def answered(answers: Answers, way: Way, *, times: int = 1, rate: float = 2.0) -> None:
    """Rounds of a batch of two in which one row hits and the other does not."""
    for _ in range(times):
        choice = Choice((HIT, way), (3.0, way.expected - 0.5), way.wait, 0.0)
        answers.decided([[HIT], [NONE, NGRAM, NEURAL]], [False, True], choice, rate)
        answers.earned(HIT.expected + way.expected)


def test_nothing_is_known_of_the_future_until_enough_was_seen() -> None:
    answers = Answers()
    for _ in range(ENOUGH):
        assert answers.future("ngram") == 0
        answers.looked_up("hit", True)
        answers.looked_up("ngram", True)
        answers.looked_up("none", False)
        answered(answers, NGRAM)
    assert answers.future("ngram") > answers.future("own_row") > answers.future("none") > 0


def test_a_miss_pays_for_its_wait() -> None:
    waited, free = Answers(), Answers()
    for answers, way in ((waited, NEURAL), (free, NEURAL._replace(wait=0.0))):
        answered(answers, way, times=ENOUGH)
        answers.looked_up("hit", True)
        answers.looked_up("neural", True)
    assert waited.future("neural") - free.future("neural") == pytest.approx(0.5 * 2.0)  # the hit is worth as much more


def test_what_was_passed_over_is_due_the_longest_first() -> None:
    answers = Answers()
    kinds = [NONE.kind, NGRAM.kind, NEURAL.kind]
    answered(answers, NONE, times=TRIAL_AFTER // 2)
    assert answers.due(kinds) == []
    answered(answers, NGRAM, times=TRIAL_AFTER)
    assert answers.due(kinds) == [NEURAL.kind, NONE.kind]
    answered(answers, NEURAL)
    assert answers.due(kinds) == [NONE.kind]
    assert answers.chosen == {"none": TRIAL_AFTER // 2, "ngram": TRIAL_AFTER, "neural": 1}


def test_trials_cost_a_share_of_the_tokens_at_most() -> None:
    answers = Answers()
    answered(answers, NGRAM, times=40)
    assert answers.credit == pytest.approx(40 * TRIAL_SHARE * (HIT.expected + NGRAM.expected))
    answers.tried(Trial(Choice((), (), 0.0, 0.0), NEURAL.kind, 1.5))
    assert answers.credit == pytest.approx(40 * TRIAL_SHARE * 5.5 - 1.5)
    answered(answers, NGRAM, times=1000)
    assert answers.credit == MOST_CREDIT
    assert answers.trials == {"neural": 1}


def test_b_star_comes_from_what_was_seen() -> None:
    answers = Answers()
    assert answers.critical_batch(0.1) is None
    for covered in (True, True, True, False):
        answers.looked_up("hit", covered)
        answers.looked_up("ngram", covered)
        answers.verified("hit", 4)
        answers.verified("none", 1)
        answered(answers, NONE)
    b = answers.critical_batch(0.1)
    assert b == pytest.approx(critical_batch(0.75, tokens_hit=4, tokens_miss=1, primary=0.3))
    assert answers.critical_batch(0.5) is None  # slower than a verification: the theorem does not say


def test_the_crossing_is_the_first_batch_that_goes_without_the_draft() -> None:
    answers = Answers()
    for rows, asked in ((1, True), (2, True), (2, True), (2, False), (4, False), (4, True), (4, False), (8, False)):
        answers.crossed(rows, asked=asked)
    assert answers.crossing() == 4
    assert answers.statistics(0.1)["asked_by_batch"][8] == 0
