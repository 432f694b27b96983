"""Drafts whose checkpoint has a vocabulary of its own (`d2t`): exact, and their proposals stay inside the map."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.lossless.conftest import PROMPTS, SIZES, TARGET, opened, params

from saguaro import LLM
from saguaro.config import EngineConfig
from saguaro.engine.build import build_drafter
from saguaro.engine.resolve import resolve
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.config_json import config_json
from saguaro.transport.base import Entry
from saguaro.transport.loopback import Loopback

SOME = [47, 3, 9, 21, 22, 0, 30, 11, 40, 41, 5, 17]
ALL = [(7 * row + 5) % 48 for row in range(48)]


def written(folder: Path, ids: list[int]) -> str:
    """The target's own weights, with the rows of `ids` as head."""
    toy = open_checkpoint(TARGET)
    tensors = dict(toy.tensors())
    tensors["lm_head.weight"] = tensors["lm_head.weight"][ids].contiguous()
    tensors["d2t"] = torch.tensor(ids) - torch.arange(len(ids))
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_json(toy.config, draft_vocab=len(ids))))
    toy.save_tokenizer(folder)
    return str(folder)


@pytest.fixture(scope="module")
def alone() -> dict[float, list[list[int]]]:
    with opened("ar", "float32", "loopback") as llm:
        return {t: [c.token_ids for c in llm.generate(PROMPTS, params(t))] for t in (0.0, 1.0)}


@pytest.mark.parametrize(
    ("mode", "ids", "script"),
    [
        pytest.param("sd", ALL, "hit", marks=pytest.mark.slow),
        ("sd", SOME, "hit"),
        ("ssd", ALL, "hit"),
        ("ssd", ALL, "miss"),
        ("ssd", ALL, "mixed"),
        pytest.param("ssd", SOME, "hit", marks=pytest.mark.slow),
    ],
)
def test_exact_and_inside_the_map(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alone: dict[float, list[list[int]]],
    mode: str,
    ids: list[int],
    script: str,
) -> None:
    proposed: set[int] = set()
    publish = Loopback.publish

    def heard(self: Loopback, row: int, index: int, entry: Entry, fresh: bool) -> None:
        proposed.update(entry.tokens)
        publish(self, row, index, entry, fresh)

    monkeypatch.setattr(Loopback, "publish", heard)
    with LLM(
        TARGET, written(tmp_path, ids), mode=mode, dtype="float32", channel="loopback", target_device="cpu:0",
        pacing="lockstep", lookahead=3, budget=16, drafter="saguaro.testing.drafters:ScriptedDrafter",
        drafter_options={"script": script}, **SIZES,
    ) as llm:  # fmt: skip
        for temperature, tokens in alone.items():
            results = llm.generate(PROMPTS, params(temperature))
            assert [c.token_ids for c in results] == tokens
            accepted, verified, hits, misses = (
                sum(getattr(c.metrics, name) for c in results) for name in ("accepted", "verified", "hits", "misses")
            )
            if script == "hit" and ids is ALL:
                assert accepted == verified > 0
                assert misses <= (len(results) if mode == "ssd" else 0)
            elif mode == "ssd":
                assert misses > 0
                assert hits > 0 or script == "miss"
    assert proposed <= set(ids)
    assert len(proposed) > 3


def test_who_may_have_one(tmp_path: Path) -> None:
    source = written(tmp_path, SOME)
    with pytest.raises(ConfigError, match="only be a draft"):
        resolve(EngineConfig.from_options(source))
    options: dict[str, str] = {"mode": "ssd", "dtype": "float32"}
    with pytest.raises(ConfigError, match="leave the shortlist out"):
        build_drafter(resolve(EngineConfig.from_options(TARGET, source, drafter_options={"shortlist": 4}, **options)))
    packed = build_drafter(resolve(EngineConfig.from_options(TARGET, source, **{**options, "dtype": "int8"})))
    assert packed.token_ids is not None
    assert packed.token_ids.tolist() == SOME
