"""Rounds drawn from a law follow it; recorded texts are walked as they were."""

from random import Random

import pytest

from saguaro.algorithm.agreement import verify_shared_noise
from saguaro.algorithm.rounds import EndedRound
from saguaro.errors import ConfigError
from saguaro.simulate.pairs import OWN, LawfulPair, RecordedPair, consistent, curve_of, unproposed
from saguaro.theory.acceptance import number_accepted
from saguaro.theory.fan_out import PowerLaw

LAW = PowerLaw(c=0.5, r=0.6)
LAWS = {"draft": consistent(0.8, LAW), "none": unproposed(PowerLaw(c=0.6, r=0.5))}
MANY = 6_000


def share(hits: int) -> float:
    return hits / MANY


def drawn(pair, source, depth):
    chance = Random(5)
    return [pair.draw(0, source, depth, chance) for _ in range(MANY)]


@pytest.mark.parametrize("sureness", [None, 2.0])
def test_accepted_tokens_follow_the_law(sureness):
    """However sure the draft is of single positions, the mean acceptance is what was asked for."""
    found = [0] * 4
    for each in drawn(LawfulPair(LAWS, sureness=sureness), "hit", 3):
        found[verify_shared_noise(each.own, each.sent).accepted] += 1
    assert [share(count) for count in found] == pytest.approx(number_accepted([0.8] * 3), abs=0.012)


@pytest.mark.parametrize("sureness", [None, 2.0])
def test_the_bonus_token_follows_the_curves(sureness):
    whole, rejected = [], []
    for each in drawn(LawfulPair(LAWS, sureness=sureness), "neural", 2):
        outcome = verify_shared_noise(each.own, each.sent)
        (whole if outcome.accepted == 2 else rejected).append(outcome.bonus)
    assert 0 not in rejected  # what was sent and refused cannot be the bonus token
    for guesses in (1, 2, 5):
        inside = sum(bonus <= guesses for bonus in rejected) / len(rejected)
        assert inside == pytest.approx(LAW.hit(guesses), abs=0.02)
    if sureness is None:
        assert whole.count(0) / len(whole) == pytest.approx(0.8, abs=0.02)


def test_tokens_of_nobody_are_never_right():
    pair = LawfulPair(LAWS)
    each = pair.draw(0, "random", 3, Random(1))
    assert each.sent == (OWN,) * 3
    assert verify_shared_noise(each.own, each.sent).accepted == 0
    assert pair.draw(0, "none", 0, Random(1)).sent == ()


def test_odds_are_calibrated():
    """Where the draft gives a token odds of p, it is right p of the time: what makes `ranked` worth its name."""
    buckets: dict[int, list[float]] = {}
    for each in drawn(LawfulPair(LAWS, sureness=1.5), "hit", 1):
        odds = each.guesses[0].odds[0]
        right = verify_shared_noise(each.own, each.sent).accepted
        buckets.setdefault(min(4, int(5 * odds)), []).append(right - odds)
    for errors in buckets.values():
        assert abs(sum(errors) / len(errors)) < 0.04


def test_consistent_curves():
    known = consistent(0.8, LAW)
    assert known.after_all[1] == pytest.approx(0.8)
    assert known.after_all[2] == pytest.approx(1 - 0.2 * LAW.miss(1))
    assert curve_of(LAW)[0] == 0


def test_what_is_missing_is_said():
    with pytest.raises(ConfigError, match="needs the laws"):
        LawfulPair({"draft": LAWS["draft"]})
    with pytest.raises(ConfigError, match="'ngram'"):
        LawfulPair(LAWS).draw(0, "ngram", 1, Random(1))


LIST, SCORES = (1, 2, 3), (3.0, 2.0, 1.0)


def a_round(number: int, sent: tuple[int, ...], accepted: int, bonus: int) -> EndedRound:
    lists = (LIST,) * (len(sent) + 1)
    return EndedRound(0, number, False, sent, accepted, bonus, 2, lists, (SCORES,) * len(lists))


def test_recorded_texts_go_on_with_any_proposal():
    """The text is 1 1 2 1 1 1 3: the draft, which always says 1, is wrong at the places of 2 and 3."""
    pair = RecordedPair(
        [a_round(0, (), 0, 1), a_round(1, (1, 1), 1, 2), a_round(2, (1, 1), 2, 1), a_round(3, (1,), 0, 3)]
    )
    chance, text = Random(0), []
    for depth, source in ((2, "hit"), (0, "none"), (3, "neural"), (2, "random"), (1, "hit")):
        each = pair.draw(0, source, depth, chance)
        outcome = verify_shared_noise(each.own, each.sent)
        text += [*each.sent[: outcome.accepted], outcome.bonus]
    assert text[:7] == [1, 1, 2, 1, 1, 1, 3]
    with pytest.raises(ConfigError, match="nothing of proposals of 'ngram'"):
        pair.evidence("ngram")
