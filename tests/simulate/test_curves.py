"""What rounds say: counts by hand, and tokens a round of any lookahead from a text that was recorded with one."""

import pytest

from saguaro.algorithm.rounds import EndedRound
from saguaro.simulate import curves
from saguaro.theory.evidence import assumed

LIST = (1, 2, 3, 4)


def a_round(number: int, sent: tuple[int, ...], accepted: int, bonus: int, *, request: int = 0) -> EndedRound:
    """Candidates are 1 2 3 4 everywhere, so the draft always sends 1."""
    lists = (LIST,) * (len(sent) + 1)
    return EndedRound(request, number, False, sent, accepted, bonus, 2, lists, ((3.0, 2.0, 1.0, 0.0),) * len(lists))


PREFILL = a_round(0, (), 0, 1)
ROUNDS = [
    PREFILL,
    a_round(1, (1, 1), 1, 2),
    a_round(2, (1, 1), 2, 1),
    a_round(3, (1, 1), 0, 4),
    a_round(4, (1, 1), 2, 3),
]


def test_acceptance_by_position():
    assert curves.accepted_and_tried(ROUNDS) == ([3, 2], [4, 3])


def test_ranks():
    assert curves.bonus_ranks(ROUNDS, after_all=False) == [0, 2]
    assert curves.bonus_ranks(ROUNDS, after_all=True) == [0, 2]
    assert curves.start_ranks(ROUNDS) == [0, 0, 3, 0]


def test_a_curve_leans_on_what_is_assumed():
    prior = assumed().after_all
    seen = curves.hit_curve([0, 2, None, None], prior, weight=0)
    assert seen[:5] == (0, 0.25, 0.25, 0.5, 0.5)
    leaning = curves.hit_curve([0, 2, None, None], prior, weight=4)
    assert leaning[1] == pytest.approx((0.25 + prior[1]) / 2)
    assert curves.hit_curve([], prior) == pytest.approx(prior)


def test_evidence():
    known = curves.evidence_of(ROUNDS * 50)
    assert known.rates(2) == pytest.approx([3 / 4, 2 / 3], abs=0.01)
    assert known.rate == pytest.approx(5 / 7, abs=0.01)
    assert known.after_rejection[1:4] == pytest.approx([0.5, 0.5, 1.0], abs=0.02)
    nothing = curves.evidence_without_proposal(ROUNDS * 50)
    assert nothing.rates(2) == [0.0, 0.0]
    assert nothing.after_all[1] == pytest.approx(0.75, abs=0.02)


def test_the_text_as_the_draft_saw_it():
    [places] = curves.texts(ROUNDS)
    assert [place.token for place in places] == [1, 1, 2, 1, 1, 1, 4, 1, 1, 3]
    assert [place.rank for place in places] == [0, 0, 1, 0, 0, 0, 3, 0, 0, 2]


def test_tokens_a_round_of_other_lookaheads_are_counted_on_the_text():
    """After the first token the text is 1 2 1 1 1 4 1 1 3. K = 1 reads 1 2 | 1 1 | 1 4 | 1 1, K = 3 1 2 | 1 1 1 4."""
    found = curves.tokens_a_round(ROUNDS, 3)
    assert found[:3] == pytest.approx([1.0, 8 / 4, (2 + 3 + 1 + 3) / 4])
    assert found[3] == pytest.approx((2 + 4) / 2)


def test_a_list_that_is_missing_ends_the_text():
    short = EndedRound(0, 2, False, (1, 1), 2, 1, 2, (LIST,) * 2, ((3.0, 2.0, 1.0, 0.0),) * 2)
    [places] = curves.texts([ROUNDS[0], ROUNDS[1], short, ROUNDS[3]])
    assert len(places) == 3
    assert curves.proposed([short]) == []


def test_walked_again_with_its_own_lookahead_a_text_has_its_own_rounds():
    assert [(each.sent, each.accepted, each.bonus) for each in curves.walked(ROUNDS, 2)] == [
        (each.sent, each.accepted, each.bonus) for each in ROUNDS
    ]
    short = curves.walked(ROUNDS, 1)
    assert [(each.accepted, each.bonus) for each in short] == [(0, 1), (1, 2), (1, 1), (1, 4), (1, 1)]
    # Read in ones, the text has no refusal; read in twos, its last tokens are refused.
    assert curves.accepted_and_tried(short) == ([4], [4])
