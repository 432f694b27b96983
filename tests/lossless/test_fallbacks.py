"""Every fallback leaves the tokens alone (shared noise) or the law (rejection), by its table row alone."""

from __future__ import annotations

import pytest
from tests.lossless.conftest import PROMPTS, opened, params
from tests.lossless.test_law import DRAFT, TARGET, p_value, target_law, transitions

from saguaro import LLM
from saguaro.drafting.fallbacks import FALLBACKS
from saguaro.engine import answers


@pytest.fixture(scope="module")
def wanted() -> dict[float, list[list[int]]]:
    with opened("ar", "float32", "loopback") as llm:
        return {t: [c.token_ids for c in llm.generate(PROMPTS, params(t))] for t in (0.0, 1.0)}


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was not taken the last time is tried now, at any cost."""
    for name, value in (("TRIAL_AFTER", 1), ("TRIAL_SHARE", 1e6), ("MOST_CREDIT", 1e9)):
        monkeypatch.setattr(answers, name, value)


@pytest.mark.parametrize("name", FALLBACKS.names())
@pytest.mark.parametrize("fan_out", ["none", [1, 0, 1, 1]])
def test_tokens_are_those_of_ar(name: str, fan_out: object, wanted: dict[float, list[list[int]]]) -> None:
    options = {"drafter": "mixed", "pacing": "lockstep", "fan_out": fan_out, "lookahead": 3, "fallback": name}
    with opened("ssd", "float32", "loopback", **options) as llm:  # type: ignore[arg-type]
        for temperature, tokens in wanted.items():
            results = llm.generate(PROMPTS, params(temperature))
            assert [c.token_ids for c in results] == tokens
            assert sum(c.metrics.misses for c in results) > 0


@pytest.mark.parametrize("name", FALLBACKS.names())
def test_rejection_keeps_the_law(name: str, restless: None) -> None:
    with LLM(
        TARGET, DRAFT, mode="ssd", channel="loopback", dtype="float32", verification="rejection", pacing="lockstep",
        fan_out=[0, 0, 0], fallback=name, max_batch=64, max_model_len=128, page_size=16,
    ) as llm:  # fmt: skip
        assert p_value(transitions(llm, 4_000, 0.8), target_law(llm, 0.8)) > 0.001
        chosen = set(llm.statistics()["fallback"]["chosen"])
    # Without hits and without the draft there is never a drafted token that `own_row` could take up.
    wanted = {"adaptive": {"neural", "ngram", "own_row"}, "own_row": {"none"}}
    assert chosen >= wanted.get(name, {name})


@pytest.mark.parametrize("pacing", ["lockstep", "free"])
def test_adaptive_with_all_its_answers(pacing: str, restless: None, wanted: dict[float, list[list[int]]]) -> None:
    options = {"drafter": "mixed", "pacing": pacing, "fan_out": [1, 0, 1, 1], "fallback": "adaptive"}
    with opened("ssd", "float32", "loopback", **options) as llm:  # type: ignore[arg-type]
        for temperature, tokens in wanted.items():
            assert [c.token_ids for c in llm.generate(PROMPTS, params(temperature))] == tokens
        known = llm.statistics()["fallback"]
    assert set(known["chosen"]) >= {"neural", "ngram", "own_row"}
    assert sum(known["trials"].values()) > 10


def test_earlier_outputs_are_found_and_change_no_token() -> None:
    options = {"drafter": "miss", "fan_out": "none", "pacing": "lockstep", "lookahead": 3, "fallback": "ngram"}
    with opened("ssd", "float32", "loopback", fallback_corpus=4096, **options) as llm:  # type: ignore[arg-type]
        first, second = (llm.generate(PROMPTS, params(0.0)) for _ in range(2))
    assert [c.token_ids for c in first] == [c.token_ids for c in second]
    accepted = [sum(c.metrics.accepted for c in results) for results in (first, second)]
    assert accepted[1] > accepted[0] + 20
