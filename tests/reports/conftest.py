"""The five modes in which every report of a user is tried, and a target that says what a test wants it to say.

    ar         the target alone
    sd         a draft that is right, wrong and lost by turns, on the target's device
    ssd-hit    every round accepts all and is a hit
    ssd-miss   no branches: every round is a miss
    ssd-mixed  hits of all depths and misses by turns

A test that takes `llm` (or `async_llm`) runs in all five. They share engines within a file: change settings only with
`configure`, and only those that every test of the file sets itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.lossless.conftest import DRAFT, SIZES, TARGET

from saguaro import LLM, AsyncLLM, Completion, Delta, SamplingParams

MODES: dict[str, dict[str, Any]] = {
    "ar": {"mode": "ar"},
    "sd": {"mode": "sd", "drafter": "mixed"},
    "ssd-hit": {"mode": "ssd", "drafter": "hit", "pacing": "lockstep"},
    "ssd-miss": {"mode": "ssd", "drafter": "mixed", "fan_out": "none", "pacing": "lockstep"},
    "ssd-mixed": {"mode": "ssd", "drafter": "mixed", "pacing": "lockstep"},
}
LOOKAHEAD, BUDGET = 5, 12
PROMPT = [1, 2, 3]
DISTINCT = SamplingParams(temperature=0.0, presence_penalty=100.0, max_tokens=40, ignore_eos=True)
"""No token comes twice, so a token can be named by its place."""


def engine_arguments(mode: str, **options: Any) -> dict[str, Any]:
    """Arguments of `LLM` and `AsyncLLM` for a mode, over the toy pair and in this process."""
    chosen = {**MODES[mode], **options}
    arguments: dict[str, Any] = {"target": TARGET, "dtype": "float32", "channel": "loopback", **SIZES}
    if mode != "ar":
        arguments |= {"draft": DRAFT, "lookahead": LOOKAHEAD, "budget": BUDGET}
    script = chosen.pop("drafter", None)
    if script is not None:
        drafter = {"drafter": "saguaro.testing.drafters:ScriptedDrafter"}
        arguments |= {"draft": TARGET, **drafter, "drafter_options": {"script": script, "shortlist": None}}
    if "fan_out" in chosen:
        arguments.pop("budget", None)
    return {**arguments, **chosen}


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def llm(mode: str) -> Iterator[LLM]:
    with LLM(**engine_arguments(mode)) as opened:
        yield opened


@pytest.fixture(scope="module")
def async_llm(mode: str) -> Iterator[AsyncLLM]:
    opened = AsyncLLM(**engine_arguments(mode))
    yield opened
    opened.close()


class Script:
    """Gives the tokens that the target draws (see `DISTINCT`) the texts of a test."""

    def __init__(self, llm: LLM | AsyncLLM, ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        self._tokenizer = llm.tokenizer
        self._monkeypatch = monkeypatch
        self.prompt, self.ids = PROMPT, ids

    def say(self, pieces: Iterable[str | bytes], *, special: Iterable[int] = ()) -> list[int]:
        """The i-th token stands for the i-th piece, later ones for `~`; `special` are places of special tokens."""
        texts = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
        named = dict(zip(self.ids, texts, strict=False))
        self._monkeypatch.setattr(self._tokenizer, "token_bytes", lambda token: named.get(token, b"~"))
        self._monkeypatch.setattr(self._tokenizer, "special_ids", frozenset(self.ids[place] for place in special))
        return self.ids


@pytest.fixture(scope="session")
def distinct_ids() -> list[int]:
    """What the target alone gives for `PROMPT` and `DISTINCT`."""
    with LLM(**engine_arguments("ar")) as alone:
        ids = alone.generate(PROMPT, DISTINCT)[0].token_ids
    assert len(set(ids)) == len(ids) == DISTINCT.max_tokens
    return ids


@pytest.fixture
def script(llm: LLM, distinct_ids: list[int], monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(llm, distinct_ids, monkeypatch)


def both_ways(llm: LLM, prompt: list[int], params: SamplingParams) -> Completion:
    """The completion of a request, whose stream is checked to say the same piece by piece."""
    [whole] = llm.generate(prompt, params)
    check_stream(list(llm.stream(prompt, params)), whole)
    return whole


def check_stream(deltas: list[Delta], whole: Completion) -> None:
    """Pieces add up to the whole, and only the last one ends it."""
    assert [delta.finish_reason for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert deltas[-1].finish_reason == whole.finish_reason
    assert "".join(delta.text for delta in deltas) == whole.text
    assert [token for delta in deltas for token in delta.token_ids] == whole.token_ids
    assert [len(delta.origins) for delta in deltas] == [len(delta.token_ids) for delta in deltas]
    if whole.logprobs is not None:
        assert [entry.token_id for delta in deltas for entry in delta.logprobs or []] == whole.token_ids


def check_counters(whole: Completion, mode: str) -> None:
    """Ids, log probabilities, origins and every counter describe the same tokens."""
    m, count = whole.metrics, len(whole.token_ids)
    assert count == len(whole.origins) == 1 + m.rounds + m.accepted == 1 + sum(m.round_tokens)
    assert whole.logprobs is None or [entry.token_id for entry in whole.logprobs] == whole.token_ids
    assert sum(m.accepted_per_position) == m.accepted <= m.verified <= m.drafted
    assert sum(m.verified_per_position) == m.verified
    assert m.hits + m.misses == (m.rounds if mode.startswith("ssd") else 0)
    assert len(m.round_seconds) == m.rounds
    assert whole.origins.count("prefill") == 1
