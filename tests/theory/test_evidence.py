"""Evidence follows the rounds it is shown, each kind apart."""

import pytest

from saguaro.theory.evidence import (
    AFTER_ALL_ACCEPTED,
    AFTER_REJECTION,
    REFRESH,
    Evidence,
    RunningEvidence,
    assumed,
)


def shown(evidence, rounds, **each):
    for _ in range(rounds):
        evidence.update(**each)


def test_it_starts_from_what_is_assumed():
    start = RunningEvidence().of(after_hit=True)
    assert start == assumed() == RunningEvidence().of(after_hit=False)
    assert start.after_rejection[:3] == (0.0, AFTER_REJECTION.hit(1), AFTER_REJECTION.hit(2))
    assert start.after_all[1] == AFTER_ALL_ACCEPTED.hit(1)
    assert start.rates(2) == [0.8, 0.8]


def test_acceptance_by_position():
    evidence = RunningEvidence()
    shown(evidence, 400, after_hit=True, sent=[1, 2, 3], accepted=1, bonus=9, guesses=[2, 9])
    known = evidence.of(after_hit=True)
    assert known.rates(4)[0] > 0.95
    assert known.rates(4)[1] < 0.1
    assert known.rate == pytest.approx(0.5, abs=0.03)
    assert evidence.of(after_hit=False) == assumed()


def test_the_rank_does_not_count_the_sent_token():
    """After a rejection the sent token (2) is no guess, so 9 is the first; after all accepted it may be."""
    evidence = RunningEvidence()
    shown(evidence, 40 * REFRESH, after_hit=False, sent=[1, 2], accepted=1, bonus=9, guesses=[2, 9])
    known = evidence.of(after_hit=False)
    assert known.after_rejection[1] > 0.92
    assert known.after_all == pytest.approx(assumed().after_all)
    shown(evidence, 40 * REFRESH, after_hit=False, sent=[1, 2], accepted=2, bonus=9, guesses=[2, 9])
    known = evidence.of(after_hit=False)
    assert known.after_all[1] < 0.15
    assert known.after_all[2] > 0.95


def test_what_is_known_by_position_counts_on():
    """The acceptance of each position is leant on, not only their mean."""
    start = Evidence(0.7, (0.9, 0.5), assumed().after_rejection, assumed().after_all)
    evidence = RunningEvidence(start)
    assert evidence.of(after_hit=True) is start
    shown(evidence, REFRESH, after_hit=True, sent=[1, 2], accepted=2, bonus=9, guesses=[9])
    first, second = evidence.of(after_hit=True).rates(2)
    assert (first, second) == pytest.approx(((24 * 0.9 + 16) / 40, (24 * 0.5 + 16) / 40), abs=0.01)


def test_unlisted_is_a_miss_and_unknown_is_nothing():
    evidence = RunningEvidence()
    shown(evidence, 10 * REFRESH, after_hit=True, sent=[1], accepted=0, bonus=9, guesses=None)
    assert evidence.of(after_hit=True).after_rejection == pytest.approx(assumed().after_rejection)
    shown(evidence, 40 * REFRESH, after_hit=True, sent=[1], accepted=0, bonus=9, guesses=[1, 4, 5])
    assert evidence.of(after_hit=True).after_rejection[64] < 0.15
    curve = evidence.of(after_hit=True).after_rejection
    assert list(curve) == sorted(curve)


def test_policies_see_the_same_numbers_for_a_while():
    evidence = RunningEvidence()
    shown(evidence, REFRESH - 1, after_hit=True, sent=[1], accepted=0, bonus=9, guesses=[9])
    assert evidence.of(after_hit=True) == assumed()
    shown(evidence, 1, after_hit=True, sent=[1], accepted=0, bonus=9, guesses=[9])
    assert evidence.of(after_hit=True) != assumed()


def test_a_short_round_does_not_take_the_other_positions_away():
    evidence = RunningEvidence()
    shown(evidence, REFRESH, after_hit=True, sent=[1, 2, 3], accepted=3, bonus=9, guesses=[9])
    shown(evidence, REFRESH, after_hit=True, sent=[], accepted=0, bonus=9, guesses=[9])
    assert len(evidence.of(after_hit=True).acceptance) == 3
