"""Ended rounds are kept as the draft saw them when that is asked for, and only then."""

import pytest

from saguaro import LLM, SamplingParams
from saguaro.algorithm.odds import Guesses
from saguaro.algorithm.options import Sampling
from saguaro.algorithm.rounds import EndedRound
from saguaro.engine.draft_row import DraftRow
from saguaro.engine.observing import Observer
from saguaro.paging import PagePool, PrefixCache
from saguaro.protocol.messages import Admit, Decided


def row() -> DraftRow:
    r = DraftRow(Admit(7, 0, 0, 3, Sampling(temperature=0.0), (1, 2, 3)), PrefixCache(PagePool(8, 4)), 64)
    r.decide(Decided(7, 0, 3, 0, 4, "hit", False, 2, (5,)))
    r.ranked = [Guesses([5, 7, 8], [0.8, 0.1, 0.1], [2.0, 1.0, 0.5]), Guesses([6], [1.0], [0.0]), Guesses([1], [1.0])]
    return r


DECIDED = Decided(7, 1, 4, 0, 7, "neural", True, 3, ())


def test_a_round_as_the_draft_saw_it():
    observer = Observer(2)
    observer.note(row(), DECIDED)
    wanted = EndedRound(7, 1, True, (5,), 0, 7, 3, ((5, 7), (6,)), ((2.0, 1.0), (0.0,)))
    assert observer.take() == [wanted]
    assert observer.take() == []


def test_nothing_is_kept_unless_asked_for():
    observer = Observer(0)
    observer.note(row(), DECIDED)
    assert observer.take() == []


@pytest.mark.parametrize(
    ("mode", "channel"),
    [("ssd", "loopback"), ("ssd", "processes"), pytest.param("sd", "processes", marks=pytest.mark.slow)],
)
def test_from_every_kind_of_engine(mode, channel, monkeypatch):
    """Over loopback, from a draft process, and from the draft inside the target's process (SD)."""
    monkeypatch.setattr("saguaro.engine.interface.MEASURE_SECONDS", 0.0)
    pair = ("toy:llama?seed=1&vocab=48", "toy:llama?seed=1&vocab=48&noise=0.1")
    with LLM(
        *pair, mode=mode, channel=channel, max_model_len=64, lookahead=2, budget=4, observe=5, pacing="lockstep"
    ) as llm:
        [done] = llm.generate([[1, 2, 3]], SamplingParams(temperature=0, max_tokens=12, ignore_eos=True))
        rounds = llm._open.observations()
    assert [each.number for each in rounds] == list(range(done.metrics.rounds))
    assert max(len(tokens) for each in rounds for tokens in each.tokens) == 5
    text = [token for each in rounds for token in each.drawn]
    assert text == done.token_ids[: len(text)]
