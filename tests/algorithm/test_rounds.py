"""A recorded round: ranks, what a shorter proposal would have been, and the way to a file and back."""

import json

import pytest

from saguaro.algorithm.odds import Calibration, guess_odds
from saguaro.algorithm.rounds import EndedRound, from_plain

LISTS = ((5, 6, 7), (8, 5, 9), (4, 3, 2))
SCORES = ((2.0, 1.0, 0.0), (1.0, 0.5, 0.25), (9.0, 1.0, 0.123456789))


def a_round(accepted: int, bonus: int) -> EndedRound:
    return EndedRound(3, 2, True, (5, 8), accepted, bonus, 4, LISTS, SCORES)


def test_the_rank_leaves_the_sent_token_out_below_the_end_only():
    assert a_round(0, 6).bonus_rank() == 0
    assert a_round(1, 9).bonus_rank() == 1
    assert a_round(2, 4).bonus_rank() == 0
    assert a_round(2, 2).bonus_rank() == 2
    assert a_round(0, 99).bonus_rank() is None


def test_what_the_target_drew():
    assert a_round(1, 9).drawn == (5, 9)
    assert (a_round(1, 9).whole, a_round(2, 4).whole) == (False, True)


@pytest.mark.parametrize(
    ("depth", "accepted", "bonus"), [(0, 0, 5), (1, 1, 9), (2, 1, 9), (5, 1, 9)]
)  # fmt: skip
def test_a_shorter_proposal(depth, accepted, bonus):
    cut = a_round(1, 9).cut(depth)
    assert (cut.accepted, cut.bonus) == (accepted, bonus)
    assert cut.sent == (5, 8)[:depth]
    assert len(cut.tokens) == min(depth, 2) + 1


def test_a_shorter_proposal_of_which_all_is_accepted_has_the_next_sent_token_as_bonus():
    assert (a_round(2, 4).cut(1).accepted, a_round(2, 4).cut(1).bonus) == (1, 8)


def test_fewer_candidates_have_the_odds_of_a_shorter_list():
    [first, *_] = a_round(0, 6).guesses(2, Calibration(2.0, 0.1))
    assert (first.tokens, first.odds) == ([5, 6], guess_odds([2.0, 1.0], Calibration(2.0, 0.1)))


def test_to_a_file_and_back():
    back = from_plain(json.loads(json.dumps(a_round(1, 9).plain())))
    assert back.scores[2][2] == pytest.approx(0.1235)
    assert back == EndedRound(3, 2, True, (5, 8), 1, 9, 4, LISTS, (*SCORES[:2], (9.0, 1.0, 0.1235)))
