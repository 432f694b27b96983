"""Replayed rounds are those of the real engine in lockstep: the same hits, round by round, for every policy."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.lossless.conftest import DRAFT, PROMPTS, SIZES, TARGET

from saguaro import LLM, SamplingParams
from saguaro.algorithm.fan_out import FAN_OUT
from saguaro.algorithm.odds import Calibration
from saguaro.algorithm.rounds import EndedRound
from saguaro.calibrate.recording import record, recording_options
from saguaro.simulate.replay import replay

LOOKAHEAD, TOKENS = 3, 24
OPTIONS: dict[str, Any] = {**SIZES, "target": TARGET, "draft": DRAFT, "channel": "loopback", "dtype": "float32"}
POLICIES: list[Any] = [name if name != "listed" else (3, 1, 0, 2) for name in FAN_OUT]
OPTIONS_WITHOUT_ROWS = {name: value for name, value in OPTIONS.items() if name != "max_batch"}


@pytest.fixture(scope="module", autouse=True)
def nothing_is_timed() -> Iterator[None]:
    """Step times play no part in lockstep; two passes of each size are enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saguaro.engine.interface.MEASURE_SECONDS", 0.0)
        yield


@pytest.fixture(scope="module")
def recordings(nothing_is_timed: None) -> dict[float, list[EndedRound]]:
    options = recording_options(OPTIONS_WITHOUT_ROWS, lookahead=LOOKAHEAD, candidates=16, rows=1)
    with LLM(**options) as llm:
        return {
            temperature: record(llm, PROMPTS, temperature=temperature, max_tokens=TOKENS, seed=3).rounds
            for temperature in (0.0, 1.0)
        }


def engine_hits(llm: LLM, temperature: float) -> list[bool]:
    """Whether the outcome of each round was found, in the order of the rounds; prompts one after another."""
    found: list[bool] = []
    for place, prompt in enumerate(PROMPTS):
        params = SamplingParams(temperature=temperature, max_tokens=TOKENS, seed=3 + place, ignore_eos=True)
        [choice] = llm._intake.choices([prompt], params)
        llm._open.submit(llm._intake.submission(100 + place, choice))
        reports = []
        while not reports or reports[-1].finish is None:
            reports += [report for _, report in llm._open.poll(1.0)]
        found += [report.source == "hit" for report in reports[1:]]
    return found


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_the_engine_hits_as_the_replay_says(recordings: dict[float, list[EndedRound]], policy: Any) -> None:
    budget = 6 if isinstance(policy, str) else sum(policy)
    options = {**OPTIONS_WITHOUT_ROWS, "max_batch": 1, "mode": "ssd", "pacing": "lockstep", "fallback": "neural"}
    chosen = {"fan_out": policy, "lookahead": LOOKAHEAD, "budget": budget}
    with LLM(**options, **chosen) as llm:
        found = [hit for temperature in recordings for hit in engine_hits(llm, temperature)]
    rounds = [replace(each, request=each.request + 100 * t) for t, own in recordings.items() for each in own]
    assert replay(rounds, policy, budget, lookahead=LOOKAHEAD) == found


def test_hits_are_neither_all_nor_none(recordings: dict[float, list[EndedRound]]) -> None:
    for rounds in recordings.values():
        hits = replay(rounds, "ranked", 6, lookahead=LOOKAHEAD)
        assert 0.2 < sum(hits) / len(hits) < 0.98


def ended(request: int, number: int, accepted: int, bonus: int, *, wanted: int = 2) -> EndedRound:
    """A round that sent [5, 6]; candidates are 5 6 7 8 at every position."""
    lists = ((5, 6, 7, 8),) * 3
    return EndedRound(request, number, False, (5, 6), accepted, bonus, wanted, lists, ((3.0, 1.0, 0.5, 0.0),) * 3)


def test_by_hand() -> None:
    rounds = [ended(0, 1, 0, 6), ended(0, 2, 0, 7), ended(0, 3, 2, 5), ended(0, 4, 1, 5), ended(0, 5, 2, 5, wanted=0)]
    assert replay(rounds, (1, 1, 1), 3, lookahead=2) == [True, False, True, True, False]
    assert replay(rounds, "none", 0, lookahead=2) == [False] * 5


def test_the_kind_of_a_round_is_that_of_the_policy_at_hand() -> None:
    """F^p = (0, 0, 1) after a hit, F^b = (2, 0, 0) after a miss: what was recorded does not matter."""
    rounds = [ended(0, 1, 0, 6), ended(0, 2, 0, 7), ended(0, 3, 2, 5), ended(1, 1, 2, 5)]
    assert replay(rounds, ((0, 0, 1), (2, 0, 0)), 3, lookahead=2) == [False, True, True, True]


def test_evidence_is_followed_and_calibration_counts(recordings: dict[float, list[EndedRound]]) -> None:
    rounds: Sequence[EndedRound] = list(itertools.chain.from_iterable(recordings.values()))
    sharp = replay(rounds, "ranked", 4, lookahead=LOOKAHEAD, calibration=Calibration(4.0, 0.01))
    assert sharp != replay(rounds, "ranked", 4, lookahead=LOOKAHEAD, calibration=Calibration(0.2, 0.5))
    many = [*rounds] * 4
    assert replay(many, "optimal", 4, lookahead=LOOKAHEAD) != replay(
        many, "optimal", 4, lookahead=LOOKAHEAD, learning=False
    )
