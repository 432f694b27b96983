"""A draft that knows fewer ids than the target, or more, or others from round to round; both verifications."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.lossless.conftest import DRAFT, PROMPTS, SIZES, TARGET, opened, params

from saguaro import LLM
from saguaro.config import EngineConfig
from saguaro.engine.build import build_drafter
from saguaro.engine.resolve import resolve
from saguaro.errors import ConfigError

WIDER = DRAFT.replace("vocab=48", "vocab=64")
SPARE = {"drafter_options": {"shortlist": 16, "spare": 8}}
DRAFTS: dict[str, tuple[str, dict[str, Any]]] = {
    "half of the ids": (TARGET, {"drafter_options": {"shortlist": 24, "spare": 0}}),
    "ids that change": (TARGET, SPARE),
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


OPTIONS: dict[str, dict[str, Any]] = {
    "filters": {"top_p": 0.9, "top_k": 12},
    "edits": {
        "presence_penalty": 0.5,
        "repetition_penalty": 1.2,
        "logit_bias": {45: 1.5, 3: -2.0},
        "frequency_penalty": 0.1,
    },
}


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_every_option_reads_tokens_and_not_columns(dtype: str) -> None:
    """With the target's own weights as the draft, what the options do to a token shows in what is accepted: were they
    applied to the wrong columns, hardly any token would be.
    """
    asked = {"plain": params(1.0), **{name: replace(params(1.0), **more) for name, more in OPTIONS.items()}}
    with opened("ar", dtype, "loopback") as llm:
        wanted = {name: [c.token_ids for c in llm.generate(PROMPTS, one)] for name, one in asked.items()}
    with opened(
        "ssd", dtype, "loopback", draft_=TARGET, draft_dtype=dtype, lookahead=3, budget=8, pacing="lockstep",
        drafter_options={"shortlist": 44, "spare": 40},
    ) as llm:  # fmt: skip
        inner: Any = llm._engine
        first = inner.draft.drafter.token_ids
        for name, one in asked.items():
            results = llm.generate(PROMPTS, one)
            assert [c.token_ids for c in results] == wanted[name]
            tokens, rounds = sum(len(c.token_ids) for c in results), sum(c.metrics.rounds for c in results)
            assert tokens > 2.5 * rounds, name
        now = inner.draft.drafter.token_ids
        assert len(set(now.tolist())) == 44
        assert now.tolist() != first.tolist()


def test_the_end_of_a_text_can_be_proposed(tmp_path: Path) -> None:
    """The id that ends a text is beyond the first ones and is in no text before it comes."""
    source, end, log = "toy:llama?seed=1&vocab=300&layers=2", 256, tmp_path / "rounds"
    one = replace(params(1.0, max_tokens=40), logit_bias={end: 4.0}, ignore_eos=False)
    with opened("ar", "float32", "loopback", target=source) as llm:
        wanted = [c.token_ids for c in llm.generate(PROMPTS, one)]
    assert all(tokens[-1] == end for tokens in wanted)
    with opened(
        "ssd", "float32", "loopback", target=source, draft_=source, lookahead=4, budget=8, pacing="lockstep",
        drafter_options={"shortlist": 250, "spare": 0}, round_log=str(log),
    ) as llm:  # fmt: skip
        assert [c.token_ids for c in llm.generate(PROMPTS, one)] == wanted
    last = {line["request"]: line for line in map(json.loads, log.read_text().splitlines())}
    assert any(line["bonus"] != end for line in last.values()), "accepted, not the target's own token behind a proposal"


def test_what_a_head_holds() -> None:
    source = "toy:llama?seed=1&vocab=300&layers=1"

    def ids(**options: Any) -> list[int] | None:
        config = EngineConfig.from_options(source, source, mode="ssd", dtype="float32", drafter_options=options)
        ids_V = build_drafter(resolve(config)).token_ids
        return None if ids_V is None else ids_V.tolist()

    assert ids() is None
    assert ids(shortlist=300) is None
    assert ids(shortlist=20, spare=4) == [256, *range(19)]
    for wrong in ({"shortlist": "many"}, {"shortlist": 8, "spare": 8}, {"shortlist": 0}):
        with pytest.raises(ConfigError, match="shortlist|tokens"):
            ids(**wrong)
