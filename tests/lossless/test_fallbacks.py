"""Every fallback leaves the tokens alone (shared noise) or the law (rejection), by its table row alone."""

from __future__ import annotations

import pytest
from tests.lossless.conftest import PROMPTS, opened, params
from tests.lossless.test_law import DRAFT, TARGET, p_value, target_law, transitions

from saguaro import LLM
from saguaro.drafting.fallbacks import FALLBACKS


@pytest.fixture(scope="module")
def wanted() -> dict[float, list[list[int]]]:
    with opened("ar", "float32", "loopback") as llm:
        return {t: [c.token_ids for c in llm.generate(PROMPTS, params(t))] for t in (0.0, 1.0)}


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
def test_rejection_keeps_the_law(name: str) -> None:
    with LLM(
        TARGET, DRAFT, mode="ssd", channel="loopback", dtype="float32", verification="rejection", pacing="lockstep",
        fan_out=[0, 0, 0], fallback=name, max_batch=64, max_model_len=128, page_size=16,
    ) as llm:  # fmt: skip
        assert p_value(transitions(llm, 4_000, 0.8), target_law(llm, 0.8)) > 0.001
