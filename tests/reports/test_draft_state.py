"""Reports about the draft's state: what it knows after accepts, rejections, pauses, long rows and lost pages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.lossless.conftest import DRAFT
from tests.reports.conftest import engine_arguments

from saguaro import LLM, SamplingParams

PROMPT = [1, 2, 3]
GREEDY = SamplingParams(temperature=0.0, max_tokens=60, ignore_eos=True)
SPECULATING = ("sd", "ssd-hit", "ssd-miss", "ssd-mixed")


def opened(mode: str, *, script: str | None = None, **options: Any) -> LLM:
    """The answers to misses are the draft's: what the text itself offers says nothing of the draft."""
    arguments = {"fallback": "neural", **engine_arguments(mode, **options)}
    if script is not None:
        arguments["drafter_options"] = {"script": script, "shortlist": None}
    return LLM(**arguments)


@pytest.fixture(scope="module")
def wanted() -> Any:
    with opened("ar") as llm:
        yield lambda prompt, params: llm.generate(prompt, params)[0].token_ids


@pytest.mark.parametrize("mode", SPECULATING)
def test_B25_a_proposed_stop_token_that_is_rejected(mode: str, wanted: Any) -> None:
    """The draft proposes the end by and by, the target disagrees: the row goes on, and so does speculation."""
    never = next(t for t in range(48) if t not in wanted(PROMPT, GREEDY))
    params = SamplingParams(temperature=0.0, max_tokens=60, stop_token_ids=(never,), ignore_eos=True)
    with opened(mode, script="..w.m.") as llm:
        [result] = llm.generate(PROMPT, params)
        assert result.token_ids == wanted(PROMPT, params)
        assert result.finish_reason == "length"
        if mode != "ssd-miss":
            assert result.metrics.accepted > 0
        assert llm.statistics()["draft" if mode != "sd" else "waited"]


@pytest.mark.parametrize("mode", SPECULATING)
def test_B41_one_long_row_does_not_spoil_the_others(mode: str) -> None:
    """A row for which the draft has no room goes on without it, says so, and leaves the others what they had."""
    arguments = engine_arguments(mode)
    arguments["drafter_options"] = {"script": "hit", "shortlist": None}
    arguments |= {"max_model_len": 128, "draft_kv_pages": 24, "page_size": 4, "lookahead": 3, "pacing": "lockstep"}
    arguments |= {"fallback": "neural"}  # the row's own text needs no draft
    arguments |= {} if "fan_out" in arguments else {"budget": 4}
    with LLM(**arguments) as llm:
        engine: Any = llm._engine
        prompts = [[(3 * i) % 48 for i in range(100)], [1], [2]]
        short = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
        assert engine.draft.statistics()["unspeculated"] == 0
        results = llm.generate(prompts, short)
        assert results[0].metrics.drafted == 0
        for result in results[1:]:
            assert result.metrics.accepted == result.metrics.drafted > 0


@pytest.mark.parametrize("pacing", ["free", "lockstep"])
@pytest.mark.parametrize("mode", SPECULATING)
def test_B41_nobody_waits_for_a_draft_without_room(mode: str, pacing: str, wanted: Any) -> None:
    """Too few pages, and a context shorter than the target's: the target is told, and does not ask again."""
    for more in ({"draft_kv_pages": 4}, {"draft": "toy:llama?seed=1&vocab=48&layers=2&max_len=64"}):
        arguments = {**engine_arguments(mode), "pacing": pacing, "max_model_len": 128, **more}
        if "draft" in more:
            arguments |= {"drafter": "lm", "drafter_options": {"shortlist": None}}
        with LLM(**arguments) as llm:
            prompt = [(3 * i) % 48 for i in range(50)]
            assert llm.generate(prompt, GREEDY)[0].token_ids == wanted(prompt, GREEDY)
            statistics = llm.statistics()
            assert statistics["late_proposals"] <= 1  # the row under way when the room ended
            engine: Any = llm._engine
            with torch.inference_mode():
                engine.draft.step()
            assert engine.draft.statistics()["pages_used"] == 0


def test_a_pass_that_is_given_up_leaves_no_slots_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("ssd-mixed", max_model_len=512) as llm:
        engine: Any = llm._engine
        run, passes = engine.draft.drafter.run, iter(range(1 << 30))
        monkeypatch.setattr(
            engine.draft.drafter, "run",
            lambda spans, interrupt=None: None if next(passes) % 3 == 0 else run(spans, interrupt=interrupt),
        )  # fmt: skip
        most = 0
        for _ in llm.stream(PROMPT, SamplingParams(temperature=0.0, max_tokens=250, ignore_eos=True)):
            [row] = engine.draft.rows.values()
            most = max(most, len(row.reserve._pages))
        assert 0 < most <= 12


@pytest.mark.parametrize("lookahead", [1, 2, 5, 8])
@pytest.mark.parametrize("mode", SPECULATING)
def test_B42_every_round_of_a_perfect_draft_accepts_all(mode: str, lookahead: int) -> None:
    """The last accepted token was run through the draft, too: acceptance does not decay over a long text."""
    with opened(mode, script="hit", pacing="lockstep", lookahead=lookahead, max_model_len=512) as llm:
        engine: Any = llm._engine
        [result] = llm.generate(PROMPT, SamplingParams(temperature=0.0, max_tokens=300, ignore_eos=True))
        m = result.metrics
        assert m.accepted == m.drafted
        assert m.acceptance_length is not None
        assert m.acceptance_length > 0.97 * (lookahead + 1)
        assert engine.target.scheduler.pool.used == 0


@pytest.mark.parametrize("mode", SPECULATING)
def test_B43_B63_lookahead_changes_while_rows_run(mode: str, wanted: Any) -> None:
    """7, 5, 3, 7, 0, 7 tokens a proposal, changed between rounds of five rows: same ids, and no row is lost."""
    prompts = [[i, i + 1] for i in range(5)]
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=60, ignore_eos=True)
    with opened(mode, lookahead=7) as llm:
        streams = {i: llm.stream(prompt, params) for i, prompt in enumerate(prompts)}
        found: list[list[int]] = [[] for _ in prompts]
        count = 0
        while streams:
            for i in list(streams):
                delta = next(streams[i], None)
                if delta is None:
                    del streams[i]
                    continue
                found[i] += delta.token_ids
                count += 1
                if count % 12 == 11:
                    llm.configure(lookahead=(5, 3, 7, 0, 7)[count // 12 % 5])
        assert found == [wanted(prompt, params) for prompt in prompts]
        llm.configure(lookahead=4)
        [after] = llm.generate(PROMPT, GREEDY)
        assert after.metrics.drafted > 0


@pytest.mark.parametrize("mode", SPECULATING)
def test_B43_the_draft_catches_up_after_a_pause(mode: str) -> None:
    with opened(mode, script="hit", lookahead=3, pacing="lockstep") as llm:
        results = []
        for lookahead in (3, 0, 3):
            llm.configure(lookahead=lookahead)
            results.append(llm.generate(PROMPT, GREEDY)[0])
        assert results[1].metrics.drafted == 0
        assert results[0].metrics.accepted == results[2].metrics.accepted > 0
        assert results[2].metrics.accepted == results[2].metrics.drafted


@pytest.mark.parametrize("mode", SPECULATING)
def test_B46_a_degenerate_draft_is_noticed(mode: str, wanted: Any) -> None:
    """A draft that is never right: same ids, and a warning that says so, unless it was given up before."""
    long = SamplingParams(temperature=0.0, max_tokens=110, ignore_eos=True)
    with opened(mode, script="m", lookahead=2, max_model_len=256) as llm:
        for prompt in ([1, 2], [3, 4]):
            [result] = llm.generate(prompt, long)
            assert result.token_ids == wanted(prompt, long)[:110]
        warned = any("does not fit" in warning for warning in llm.statistics()["warnings"])
        assert warned or result.metrics.drafted < result.metrics.rounds / 4


@pytest.mark.parametrize("mode", SPECULATING)
def test_B47_acceptance_is_what_it_was(mode: str) -> None:
    """Fixed models, prompts and settings: how many tokens are drafted and accepted does not change unnoticed."""
    arguments = engine_arguments(mode)
    arguments |= {"draft": DRAFT, "drafter": "lm", "drafter_options": {"shortlist": None}, "pacing": "lockstep"}
    with LLM(**{**arguments, "lookahead": 4, "fallback": "neural"}) as llm:
        results = llm.generate([[i, i + 1, i + 2] for i in range(4)], GREEDY)
        rounds, drafted, accepted = (
            sum(getattr(r.metrics, n) for r in results) for n in ("rounds", "drafted", "accepted")
        )
    assert (rounds, drafted, accepted) == STORED


STORED = (117, 447, 119)
"""A change of the toy weights, the proposals or the counting changes these; whose device drafts when does not."""


@pytest.mark.parametrize("mode", SPECULATING)
def test_B52_no_slot_is_missing_at_the_end_of_a_page(mode: str) -> None:
    """Prompts of every length against pages of eight slots: a perfect draft stays perfect; no other page is touched."""
    with opened(mode, script="hit", pacing="lockstep", lookahead=7, page_size=8, max_batch=1) as llm:
        engine: Any = llm._engine
        pool, memory = engine.target.scheduler.pool, engine.target.runner.pool
        guard = pool.take(1)[0]
        with torch.inference_mode():
            memory.data[:, :, guard * 8 : guard * 8 + 8] = 7.0
        for length in range(1, 25):
            [result] = llm.generate(
                [(5 * i) % 48 for i in range(length)], SamplingParams(temperature=0.0, max_tokens=25, ignore_eos=True)
            )
            assert result.metrics.accepted == result.metrics.drafted > 0
        assert bool(torch.all(memory.data[:, :, guard * 8 : guard * 8 + 8] == 7.0))
