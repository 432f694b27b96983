"""Which pairs may speak through text, and in which words the others are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.lossless.test_draft_vocabulary import SOME, written
from tests.models.text_pairs import BYTE_TARGET, merged

from saguaro.config import EngineConfig
from saguaro.drafting.drafters.text import TextDrafter
from saguaro.engine.build import build_drafter
from saguaro.engine.resolve import Plan, resolve
from saguaro.errors import ConfigError


def plan(target: str, draft: str, **options: Any) -> Plan:
    return resolve(EngineConfig.from_options(target, draft, mode="sd", dtype="float32", **options))


def test_who_does() -> None:
    assert plan("toy:llama?vocab=48", "toy:llama?vocab=300", drafter="text").through_text
    assert plan(BYTE_TARGET, BYTE_TARGET, drafter="text").through_text
    assert not plan(BYTE_TARGET, BYTE_TARGET).through_text
    assert not resolve(EngineConfig.from_options("toy:llama?vocab=48", "toy:llama?vocab=300", mode="ar")).through_text


def test_what_is_built(tmp_path: Path) -> None:
    found = plan(BYTE_TARGET, merged(tmp_path), max_model_len=128, drafter="text")
    drafter = build_drafter(found)
    assert isinstance(drafter, TextDrafter)
    assert drafter.token_ids is not None
    assert drafter.vocab == len(drafter.token_ids) <= found.vocab
    assert int(drafter.token_ids.max()) < found.vocab


@pytest.mark.parametrize(
    ("draft", "options", "sentence"),
    [
        ("toy:llama?vocab=300", {}, "different tokenizers: .*drafter 'text'"),
        ("toy:llama?vocab=300", {"drafter": "saguaro.testing.drafters:ScriptedDrafter"}, "different tokenizers"),
        ("toy:llama?vocab=300", {"drafter": "text", "drafter_options": {"shortlist": 99}}, "leave 'shortlist' out"),
        ("toy:llama?vocab=40", {"drafter": "text"}, "the draft's has no token for '!' alone"),
    ],
)
def test_what_is_refused(draft: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        plan("toy:llama?vocab=48", draft, **options)


def test_a_draft_that_knows_some_of_its_targets_ids(tmp_path: Path) -> None:
    source = written(tmp_path, SOME)
    with pytest.raises(ConfigError, match="different tokenizers, and a draft that knows its target's ids alone"):
        plan(BYTE_TARGET, source, drafter="text")
    with pytest.raises(ConfigError, match="^a draft that knows its target's ids alone cannot speak through text"):
        plan("toy:llama?vocab=48", source, drafter="text")


def test_a_real_pair_is_resolved_from_headers(models_directory: Path) -> None:
    names = ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "smollm2-135m-instruct-q4_1.gguf")
    if not all((models_directory / name).exists() for name in names):
        pytest.skip(f"{names[0]} and {names[1]} are not in {models_directory}")
    target, draft = (str(models_directory / name) for name in names)
    for one, other in ((target, draft), (draft, target)):
        assert resolve(EngineConfig.from_options(one, other, mode="ssd", drafter="text")).through_text
