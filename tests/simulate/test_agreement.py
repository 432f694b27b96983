"""Theory, simulation and enumeration agree pairwise, with no free parameter.

The enumeration itself is compared with the theory in tests/theory/test_branches.py and test_rows.py; here the simulator
meets both, in a standard error of its own: 10,000 rounds, so about 1 % of a rate.
"""

from random import Random

import pytest

from saguaro.algorithm.rounds import EndedRound
from saguaro.simulate.clock import Setting, simulate
from saguaro.simulate.costs import Costs
from saguaro.simulate.drafting import ASK
from saguaro.simulate.pairs import LawfulPair, RecordedPair, consistent, unproposed
from saguaro.simulate.replay import replay
from saguaro.theory.branches import Answer, Drafting, best_counts, hit_rate, ssd_long_run
from saguaro.theory.fan_out import PowerLaw
from saguaro.theory.rows import time_of_round
from saguaro.theory.speedup import long_run_hit_rate, ssd_speedup

DRAFTED, NONE = consistent(0.78, PowerLaw(c=0.5, r=0.6)), unproposed(PowerLaw(c=0.62, r=0.47))
PAIR = LawfulPair({"draft": DRAFTED, "none": NONE})
ROUNDS, TOLERANCE = 10_000, 0.012
K, B = 4, 8


def verify(rows: int) -> float:
    return 1.0 + 0.02 * rows


def step(rows: int) -> float:
    return 0.12 + 0.004 * rows


COSTS = Costs(verify, step)
DRAFTING = Drafting(extend=step(1), step=step)


def counts(known, depth):
    return best_counts(known, depth, B)


@pytest.mark.parametrize("fallback", ["neural", "random", "none"])
def test_the_long_run_of_two_kinds(fallback):
    found = simulate(Setting("ssd", K, B, "optimal", fallback, handover=ASK), COSTS, PAIR, rounds=ROUNDS, seed=2)
    known, depth = (DRAFTED, K) if fallback == "neural" else (NONE, 0 if fallback == "none" else K)
    wait = K * step(1) if fallback == "neural" else 0.0
    # The draft is asked, so a miss waits for its round as well, where that is longer; here it never is.
    assert DRAFTING.until(K, B) < verify(depth + 1)
    answer = Answer(known, depth, wait, counts(known, depth))
    theory = ssd_long_run(DRAFTED, counts(DRAFTED, K), answer, verify=verify, drafting=DRAFTING)
    assert found.hit_rate == pytest.approx(theory.shares[0], abs=TOLERANCE)
    assert found.tokens_a_round == pytest.approx(theory.tokens, rel=TOLERANCE)
    assert found.tokens_per_second == pytest.approx(theory.rate, rel=TOLERANCE)


def test_p_hit_after_hits_and_after_misses():
    found = simulate(Setting("ssd", K, B, "optimal", "random", handover=ASK), COSTS, PAIR, rounds=ROUNDS, seed=3)
    own, other = hit_rate(DRAFTED, counts(DRAFTED, K)), hit_rate(NONE, counts(NONE, K))
    assert found.after_hit == pytest.approx(own, abs=TOLERANCE)
    assert found.after_miss == pytest.approx(other, abs=2 * TOLERANCE)
    assert found.hit_rate == pytest.approx(long_run_hit_rate(after_hit=own, after_miss=other), abs=TOLERANCE)


def test_theorem_7_with_one_verification_time():
    flat = Costs(lambda rows: 1.0, lambda rows: 0.15)
    found = simulate(Setting("ssd", K, B, "optimal", "neural", handover=ASK), flat, PAIR, rounds=ROUNDS, seed=4)
    tokens = found.tokens_a_round
    theorem = ssd_speedup(
        hit_rate(DRAFTED, counts(DRAFTED, K)),
        tokens_hit=tokens,
        tokens_miss=tokens,
        primary=5 * 0.15,
        fallback=4 * 0.15,
    )
    assert found.tokens_per_second == pytest.approx(theorem, rel=TOLERANCE)


@pytest.mark.parametrize("batch", [2, 5])
def test_several_rows(batch):
    setting = Setting("ssd", K, B, "optimal", "neural", handover=ASK, batch=batch)
    found = simulate(setting, COSTS, PAIR, rounds=ROUNDS // batch, seed=5)
    hit = hit_rate(DRAFTED, counts(DRAFTED, K))
    time = time_of_round(
        hit,
        batch=batch,
        primary=step(batch) + K * step(batch * B),
        fallback=lambda missed: (
            max(0.0, step(batch) + K * step(batch * B) - verify(batch * (K + 1))) + K * step(missed)
        ),
        verify=verify(batch * (K + 1)),
    )
    assert found.hit_rate == pytest.approx(hit, abs=TOLERANCE)
    assert found.round_seconds == pytest.approx(time, rel=TOLERANCE)


def recorded(count: int) -> list[EndedRound]:
    """Rounds of one request with whole proposals; at every place the draft ranks some tokens in an order of its own."""
    chance, rounds, sent = Random(7), [], 0
    for number in range(count):
        lists = tuple(tuple(chance.sample(range(1, 40), 8)) for _ in range(sent + 1))
        accepted = 0
        while accepted < sent and chance.random() < 0.75:
            accepted += 1
        bonus = chance.choice(lists[accepted][accepted < sent :])
        scores = (tuple(float(-rank) for rank in range(8)),) * (sent + 1)
        proposal = tuple(row[0] for row in lists[:sent])
        rounds.append(EndedRound(0, number, True, proposal, accepted, bonus, K, lists, scores))
        sent = K
    return rounds


@pytest.mark.parametrize("policy", ["uniform", (2, 1, 0, 1, 4)])
def test_recorded_rounds_hit_on_the_clock_as_in_replay(policy):
    """Not in the mean but in number: the same text, walked by the clock, has the same hits."""
    rounds = recorded(400)
    expected = replay(rounds, policy, 8, lookahead=K, learning=False)
    setting = Setting("ssd", K, 8, policy, "neural", handover=ASK)
    found = simulate(setting, COSTS, RecordedPair(rounds), rounds=len(rounds))
    assert 0.2 < sum(expected) / len(expected) < 0.95
    assert (found.hits, found.tokens) == (sum(expected), sum(each.accepted + 1 for each in rounds))
