"""Text of runs: whole characters, no special tokens, and the same in a stream as at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.reports.conftest import DISTINCT, Script, both_ways, check_counters, check_stream

from saguaro import LLM, RequestRefused, SamplingParams

CACTUS = "🌵".encode()


def test_B34_lone_continuation_bytes_are_shown_and_not_held(llm: LLM, script: Script) -> None:
    script.say([b"\x80"] * 40)
    whole = both_ways(llm, script.prompt, DISTINCT)
    assert whole.text == "\ufffd" * 40
    for delta in llm.stream(script.prompt, DISTINCT):
        assert len(delta.text) == len(delta.token_ids)


@pytest.mark.parametrize(("limit", "end"), [(2, "\ufffd"), (3, "\ufffd"), (4, "🌵"), (5, "🌵!")])
def test_B34_a_limit_inside_an_emoji_leaves_one_mark(llm: LLM, script: Script, limit: int, end: str) -> None:
    script.say(["ok ", CACTUS[:2], CACTUS[2:3], CACTUS[3:], "!"])
    whole = both_ways(llm, script.prompt, replace(DISTINCT, max_tokens=limit))
    assert (whole.text, whole.finish_reason) == ("ok " + end, "length")


@pytest.mark.parametrize("pieces", [["ok ", CACTUS[:3], CACTUS[3:], "STOP", "x"], ["ok", b" " + CACTUS + b"ST", "OP"]])
def test_B34_a_stop_string_after_an_emoji(llm: LLM, mode: str, script: Script, pieces: list[str | bytes]) -> None:
    script.say(pieces)
    whole = both_ways(llm, script.prompt, replace(DISTINCT, stop=("STOP",)))
    assert (whole.text, whole.finish_reason) == ("ok 🌵", "stop")
    check_counters(whole, mode)


def test_B34_a_stop_string_may_begin_inside_an_emojis_token(llm: LLM, script: Script) -> None:
    script.say(["ok ", CACTUS[:1], CACTUS[1:] + b"S", b"TO", b"P\xf0", b"\x9f"])
    whole = both_ways(llm, script.prompt, replace(DISTINCT, stop=("STOP",)))
    assert (whole.text, len(whole.token_ids)) == ("ok 🌵", 5)


def test_B34_a_held_beginning_of_a_stop_string_is_shown_at_the_end(llm: LLM, script: Script) -> None:
    script.say(["ok ", "ST", "O", CACTUS[:2]])
    whole = both_ways(llm, script.prompt, replace(DISTINCT, stop=("STOP",), max_tokens=4))
    assert (whole.text, whole.finish_reason) == ("ok STO\ufffd", "length")
    marked = both_ways(llm, script.prompt, replace(DISTINCT, stop=("O\ufffd",), max_tokens=4))
    assert (marked.text, marked.finish_reason) == ("ok ST", "stop")


SPECIAL = ["a", "<|eot_id|>", "b", CACTUS[:2], "<|begin_of_text|>", CACTUS[2:], "<|mine|>", "c", "<|end|>"]


def test_B36_special_tokens_stay_out_of_the_text_inside_a_run(llm: LLM, mode: str, script: Script) -> None:
    ids = script.say(SPECIAL, special=(1, 4, 6, 8))
    end = replace(DISTINCT, stop_token_ids=(ids[8],))
    whole = both_ways(llm, script.prompt, end)
    assert (whole.text, whole.token_ids, whole.finish_reason) == ("ab🌵c", ids[:9], "stop")
    check_counters(whole, mode)


def test_B36_special_tokens_are_shown_on_request(llm: LLM, script: Script) -> None:
    ids = script.say(SPECIAL, special=(1, 4, 6, 8))
    shown = replace(DISTINCT, stop_token_ids=(ids[8],), skip_special_tokens=False)
    whole = both_ways(llm, script.prompt, shown)
    assert whole.text == "a<|eot_id|>b\ufffd<|begin_of_text|>\ufffd\ufffd<|mine|>c<|end|>"
    assert whole.token_ids == ids[:9]


def test_B36_the_option_is_a_truth_value() -> None:
    with pytest.raises(RequestRefused, match="skip_special_tokens must be true or false"):
        SamplingParams(skip_special_tokens=1)  # type: ignore[arg-type]


def test_B37_what_a_stream_counts_is_what_it_gave(llm: LLM, mode: str) -> None:
    """A piece holds all tokens of a round, so pieces are counted by their ids; the last one brings the counters."""
    params = replace(DISTINCT, temperature=1.0, seed=5, logprobs=0)
    [whole] = llm.generate([4, 5], params)
    deltas = list(llm.stream([4, 5], params))
    check_stream(deltas, whole)
    check_counters(whole, mode)
    assert [delta.metrics is not None for delta in deltas] == [False] * (len(deltas) - 1) + [True]
    assert deltas[-1].metrics is not None
    assert deltas[-1].metrics.round_tokens == [len(delta.token_ids) for delta in deltas[1:]]
    assert (len(deltas) < len(whole.token_ids)) == (mode != "ar")
