"""EAGLE-3 heads as drafts: token ids are those of AR in SD and SSD, and proposals are what the head should propose.

The heads here are random, so little is accepted: all hits are forced by a branch for every token of a small vocabulary,
all misses by none. tests/training/test_eagle3.py has one that was trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.lossless.conftest import SIZES, params
from tests.models.eagle3_heads import head_tensors, write
from tests.models.eagle3_reference import NaiveHead, taps_of

from saguaro import LLM
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.protocol.messages import FIRST_ENTRY, LAST
from saguaro.transport.base import Entry
from saguaro.transport.loopback import Loopback

TARGET = "toy:qwen3?seed=1&vocab=16&layers=8&hidden=32&head_dim=16"
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 4, 5, 6, 7], [11], [12, 13, 14, 15], [15, 1]]
IDS = [15, 3, 9, 1, 2, 0, 10, 11, 4]
TAPS = (2, 4, 5)


def head(folder: Path, **options: Any) -> str:
    return write(folder, *head_tensors(open_checkpoint(TARGET).config, **options))


@contextmanager
def opened(mode: str, draft: str | None, **options: Any) -> Iterator[LLM]:
    given: dict[str, Any] = {"dtype": "float32", "channel": "loopback", "target_device": "cpu:0", **SIZES, **options}
    llm = LLM(TARGET, draft, mode=mode, **given)
    try:
        yield llm
    finally:
        llm.close()


@pytest.fixture(scope="module")
def alone() -> dict[tuple[str, float], list[list[int]]]:
    found = {}
    for dtype in ("float32", "int8"):
        with opened("ar", None, dtype=dtype) as llm:
            for temperature in (0.0, 1.0):
                found[dtype, temperature] = [c.token_ids for c in llm.generate(PROMPTS, params(temperature))]
    return found


KINDS: dict[str, dict[str, Any]] = {
    "sd": {"mode": "sd"},
    "hits": {"mode": "ssd", "fan_out": [16, 16, 16], "budget": 48},
    "misses": {"mode": "ssd", "fan_out": "none", "fallback": "neural"},
    "mixed": {"mode": "ssd", "budget": 6, "fallback": "ngram"},
    "free": {"mode": "ssd", "pacing": "free", "budget": 6},
}


def cases() -> list[Any]:
    """(channel, dtype, kind): what shows most is fast, the rest of the product is marked."""
    found = []
    for kind in KINDS:
        for dtype in ("float32", "int8"):
            fast = dtype == "float32" and kind in ("sd", "hits", "mixed")
            found.append(pytest.param("loopback", dtype, kind, marks=() if fast else pytest.mark.slow))
        dtype = "int8" if kind in ("free", "sd") else "float32"
        found.append(pytest.param("processes", dtype, kind, marks=(pytest.mark.slow, pytest.mark.processes)))
    return found


@pytest.mark.parametrize(("channel", "dtype", "kind"), cases())
def test_tokens_equal_ar(
    tmp_path: Path, alone: dict[tuple[str, float], list[list[int]]], channel: str, dtype: str, kind: str
) -> None:
    ids = None if kind == "hits" else IDS
    settings = {"lookahead": 2, "pacing": "lockstep", **KINDS[kind]}
    with opened(settings.pop("mode"), head(tmp_path, ids=ids), dtype=dtype, channel=channel, **settings) as llm:
        for temperature in (0.0, 1.0):
            results = llm.generate(PROMPTS, params(temperature))
            assert [c.token_ids for c in results] == alone[dtype, temperature]
            drafted, hits, misses = (
                sum(getattr(c.metrics, name) for c in results) for name in ("drafted", "hits", "misses")
            )
            assert drafted > 0
            if kind == "hits":
                assert misses <= 2 * len(results), "the last rounds may have no room for a proposal, a lone token none"
                assert hits > 6 * misses
            elif kind == "misses":
                assert hits == 0 < misses
            elif kind == "mixed":
                assert hits > 0 < misses
        assert not llm.statistics()["warnings"]


class Heard:
    """The last entry of each outcome that the draft published, and the prompt of each request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries: dict[Any, tuple[int, Entry]] = {}
        publish = Loopback.publish

        def heard(port: Loopback, row: int, index: int, entry: Entry, fresh: bool) -> None:
            if entry.kind & ~LAST == FIRST_ENTRY and entry.tokens:
                self.entries[entry.key] = index, entry
            publish(port, row, index, entry, fresh)

        monkeypatch.setattr(Loopback, "publish", heard)

    def take(self, prompts: list[list[int]]) -> list[tuple[int, Entry, list[int]]]:
        """(record, entry, prompt) of everything heard since the last call."""
        first = min(key.request for key in self.entries)
        found = [(index, e, prompts[e.key.request - first]) for index, e in self.entries.values()]
        self.entries = {}
        return found


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"ids": IDS}, id="plain"),
        pytest.param({"hidden": 24, "head_dim": 10, "own_embedding": True}, id="wide", marks=pytest.mark.slow),
    ],
)
def test_proposals_are_the_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]) -> None:
    """SD: all that is committed has the target's states, whatever was guessed, reused or shared before."""
    target = open_checkpoint(TARGET)
    tensors, config = head_tensors(target.config, **more)
    naive = NaiveHead(tensors, config, target.weights().get("model.embed_tokens.weight"))
    heard = Heard(monkeypatch)
    with opened("sd", write(tmp_path, tensors, config), lookahead=3) as llm:
        for prompts in (PROMPTS[:3], [[*PROMPTS[1], 3], PROMPTS[1][:9], PROMPTS[1]]):
            results = llm.generate(prompts, params(0.0, max_tokens=8))
            texts = {tuple(p): [*p, *c.token_ids] for p, c in zip(prompts, results, strict=True)}
            seen = heard.take(prompts)
            assert len(seen) > 9
            for _, entry, prompt in seen:
                known = texts[tuple(prompt)][: entry.key.base + entry.key.accepted + 1]
                assert known[-1] == entry.key.bonus
                wanted = naive.propose(known, taps_of(TARGET, TAPS, known), len(entry.tokens), known=len(known) - 1)
                assert list(entry.tokens) == wanted


def test_branches_go_on_from_the_heads_own_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 9: a branch behind the prompt has no state of the target for the last token, since none was there yet."""
    target = open_checkpoint(TARGET)
    tensors, config = head_tensors(target.config)
    naive = NaiveHead(tensors, config, target.weights().get("model.embed_tokens.weight"))
    heard = Heard(monkeypatch)
    with opened("ssd", write(tmp_path, tensors, config), lookahead=3, budget=8, pacing="lockstep") as llm:
        llm.generate(PROMPTS, params(0.0, max_tokens=6))
    first = [each for each in heard.take(PROMPTS) if each[0] > 0 and each[1].key.round == 0]
    assert len(first) > 8
    for _, entry, prompt in first:
        text = [*prompt, entry.key.bonus]
        wanted = naive.propose(text, taps_of(TARGET, TAPS, text), len(entry.tokens), known=len(prompt) - 1)
        assert list(entry.tokens) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sd", "ssd"])
def test_little_room_and_the_other_verification(tmp_path: Path, mode: str) -> None:
    """Rows that are preempted, a draft without room, and rejection: tokens stay those of AR at temperature 0."""
    prompts = [[1 + (3 * i + j) % 15 for j in range(20)] for i in range(4)]
    with opened("ar", None) as llm:
        wanted = [c.token_ids for c in llm.generate(prompts, params(0.0, max_tokens=20))]
    source = head(tmp_path, ids=IDS)
    for options in ({"kv_pages": 12}, {"draft_kv_pages": 9}, {"verification": "rejection"}):
        with opened(mode, source, lookahead=3, budget=6, **options) as llm:
            results = llm.generate(prompts, params(0.0, max_tokens=20))
            assert [c.token_ids for c in results] == wanted
            if "kv_pages" in options:
                assert llm.statistics()["preemptions"] > 0


def test_a_head_proposes_chains(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="chains"), opened("sd", head(tmp_path), tree=4):
        pass
    with opened("sd", head(tmp_path)) as llm, pytest.raises(ConfigError, match="chains"):
        llm.configure(tree=4)
