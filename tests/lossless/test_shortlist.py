"""A draft that knows fewer ids than the target, or more, under both kinds of verification."""

from __future__ import annotations

from typing import Any

import pytest
from tests.lossless.conftest import DRAFT, PROMPTS, SIZES, TARGET, opened, params

from saguaro import LLM

WIDER = DRAFT.replace("vocab=48", "vocab=64")
DRAFTS: dict[str, tuple[str, dict[str, Any]]] = {
    "half of the ids": (TARGET, {"drafter_options": {"shortlist": 24}}),
    "all ids": (DRAFT, {}),
    "more ids": (WIDER, {}),
}


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("verification", ["shared_noise", "rejection"])
@pytest.mark.parametrize("channel", ["loopback", pytest.param("processes", marks=pytest.mark.processes)])
def test_ids_that_a_draft_lacks_change_nothing(channel: str, verification: str, draft: str) -> None:
    with opened("ar", "float32", "loopback") as llm:
        wanted = {t: [c.token_ids for c in llm.generate(PROMPTS, params(t))] for t in (0.0, 1.0)}
    source, options = DRAFTS[draft]
    with LLM(
        TARGET, source, mode="ssd", dtype="float32", channel=channel, pacing="lockstep", lookahead=3, budget=8,
        verification=verification, **SIZES, **options,
    ) as llm:  # fmt: skip
        for temperature, tokens in wanted.items():
            results = llm.generate(PROMPTS, params(temperature))
            assert sum(c.metrics.accepted for c in results) > 0 or draft == "more ids"
            if verification == "shared_noise" or temperature == 0:
                assert [c.token_ids for c in results] == tokens
        assert not llm.statistics()["warnings"]
