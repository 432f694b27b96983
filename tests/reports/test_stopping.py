"""Where a run of several tokens ends: stop ids, stop strings and the length limit, with ids and counters to match."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.reports.conftest import DISTINCT, LOOKAHEAD, Script, both_ways, check_counters

from saguaro import LLM


def test_the_modes_do_what_they_are_called_after(llm: LLM, mode: str) -> None:
    llm.configure(lookahead=LOOKAHEAD if mode != "ar" else 0)
    [whole] = llm.generate([1, 2, 3], DISTINCT)
    m = whole.metrics
    if mode == "ar":
        assert m.drafted == 0
    else:
        assert max(m.round_tokens) > 2
    if mode == "ssd-hit":
        assert (m.misses, m.acceptance_rate) == (1, 1)  # the first round waits for nobody
        assert m.round_tokens[0] == LOOKAHEAD + 1
    if mode == "ssd-miss":
        assert m.hit_rate == 0
    if mode == "ssd-mixed":
        assert m.hits > 0
        assert m.misses > 0


@pytest.mark.parametrize("lookahead", range(1, 7))
def test_B20_an_end_inside_an_accepted_run_ends_it(
    llm: LLM, mode: str, script: Script, lookahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = script.say([f"[{i}]" for i in range(20)])
    llm.configure(lookahead=lookahead if mode != "ar" else 0)
    results = llm.generate([script.prompt] * 9, [replace(DISTINCT, stop_token_ids=(token,)) for token in ids[:9]])
    monkeypatch.setattr(llm._intake, "stop_ids", frozenset({ids[5]}))  # the model's own end
    results.append(both_ways(llm, script.prompt, replace(DISTINCT, ignore_eos=False)))
    for whole, place in zip(results, [*range(9), 5], strict=True):
        assert whole.token_ids == ids[: place + 1]
        assert whole.text == "".join(f"[{i}]" for i in range(place + 1))
        assert whole.finish_reason == "stop"
        check_counters(whole, mode)


def test_B21_a_stop_string_before_the_limit_in_one_run_is_a_stop(llm: LLM, mode: str, script: Script) -> None:
    ids = script.say(["start ", "a", "b", "STOP", "c", "d", "e"])
    llm.configure(lookahead=6 if mode != "ar" else 0)
    for limit, text, reason in ((6, "start ab", "stop"), (4, "start ab", "stop"), (3, "start ab", "length")):
        whole = both_ways(llm, script.prompt, replace(DISTINCT, stop=("STOP",), max_tokens=limit))
        assert (whole.text, whole.finish_reason) == (text, reason)
        assert whole.token_ids == ids[: min(limit, 4)]
    whole = both_ways(llm, script.prompt, replace(DISTINCT, stop=("STOP",), max_tokens=6, stop_token_ids=(ids[4],)))
    assert (whole.text, len(whole.token_ids), whole.finish_reason) == ("start ab", 4, "stop")


def test_B22_a_stop_string_inside_a_run_trims_ids_and_logprobs(llm: LLM, mode: str, script: Script) -> None:
    script.say(["oh", " so", " ha", " ha", " and", " more"])
    llm.configure(lookahead=LOOKAHEAD if mode != "ar" else 0)
    whole = both_ways(llm, script.prompt, replace(DISTINCT, stop=(" ha ha",), logprobs=2))
    assert (whole.text, whole.finish_reason) == ("oh so", "stop")
    assert llm.tokenizer.token_bytes(whole.token_ids[-1]) == b" ha"
    assert b"".join(map(llm.tokenizer.token_bytes, whole.token_ids)).decode() == whole.text + " ha ha"
    assert len(whole.logprobs or []) == len(whole.token_ids) == 4
    check_counters(whole, mode)


def test_B24_counters_never_pass_the_end(llm: LLM, mode: str) -> None:
    llm.configure(lookahead=LOOKAHEAD if mode != "ar" else 0)
    chance = random.Random(24)
    plain = replace(DISTINCT, temperature=1.0, presence_penalty=0.0, seed=3, logprobs=1)
    [free] = llm.generate([4, 5], plain)
    each = []
    for _ in range(50):
        start = chance.randrange(len(free.text) - 2)
        stop = free.text[start : start + chance.randint(1, 2)] if chance.random() < 0.7 else "never"
        ids = (chance.choice(free.token_ids),) if chance.random() < 0.3 else ()
        each.append(replace(plain, max_tokens=chance.randint(1, 30), stop=stop, stop_token_ids=ids))
    results = llm.generate([[4, 5]] * 50, each)
    assert {result.finish_reason for result in results} == {"stop", "length"}
    for result, params in zip(results, each, strict=True):
        check_counters(result, mode)
        assert result.token_ids == free.token_ids[: len(result.token_ids)]
        assert len(result.token_ids) <= params.max_tokens
        assert params.stop[0] not in result.text
        if result.finish_reason == "length":
            assert len(result.token_ids) == params.max_tokens


def test_R18_the_first_token_is_told_before_any_round(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves the target before a proposal is even asked for, so no drafting stands before it."""
    engine = llm._engine
    happened: list[str] = []
    emit, propose = engine.target.emit, engine.target.proposer.propose
    monkeypatch.setattr(engine.target, "emit", lambda event: (happened.append("told"), emit(event)))
    monkeypatch.setattr(engine.target.proposer, "propose", lambda rows: (happened.append("draft"), propose(rows))[1])
    deltas = list(llm.stream([1, 2, 3], DISTINCT))
    assert deltas[0].origins == ["prefill"]
    assert len(deltas[0].token_ids) == 1
    assert happened[:2] == ["told", "draft"]
