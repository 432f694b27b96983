"""Sampling parameters: ranges, unknown names, and the arithmetic of the counters."""

import pytest

from saguaro.errors import RequestRefused
from saguaro.request import RequestMetrics, SamplingParams


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": "hot"},
        {"top_k": -1},
        {"top_k": 1.5},
        {"top_p": 0},
        {"top_p": 1.1},
        {"max_tokens": 0},
        {"seed": 2**64},
        {"stop": [""]},
        {"stop_token_ids": [-1]},
        {"ignore_eos": 1},
        {"min_p": 1.5},
        {"repetition_penalty": 0},
        {"presence_penalty": float("nan")},
        {"frequency_penalty": 101},
        {"logit_bias": {1: 101}},
        {"logit_bias": {-1: 1}},
        {"logit_bias": {"a": 1}},
        {"logit_bias": [(1, 2.0), (1, 3.0)]},
        {"bad_words": [""]},
        {"min_tokens": 200},
        {"speculation": -1},
        {"n": 0},
        {"n": 1.0},
        {"logprobs": -1},
        {"logprobs": 21},
        {"json_schema": "{"},
        {"json_schema": 3},
        {"json_schema": [1]},
        {"json_schema": {"enum": {1, 2}}},
        {"json_object": 1},
        {"regex": ""},
        {"regex": 5},
        {"grammar": ["start"]},
        {"regex": "a", "json_object": True},
        {"json_schema": {}, "grammar": "start: /a/"},
    ],
)
def test_values_out_of_range_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(RequestRefused):
        SamplingParams(**values)  # type: ignore[arg-type]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(RequestRefused, match="temperature"):
        SamplingParams.from_dict({"temprature": 1.0})


def test_one_stop_string_is_a_tuple() -> None:
    assert SamplingParams(stop="END").stop == ("END",)


def test_rates_follow_their_definitions() -> None:
    m = RequestMetrics(rounds=4, drafted=10, verified=8, accepted=6, hits=3, misses=1, hit_depth_sum=7)
    assert m.acceptance_length == 1 + 6 / 4
    assert m.acceptance_rate == 6 / 8
    assert m.accepted_share == 6 / 10
    assert m.hit_rate == 3 / 4
    assert m.depth == 7 / 3
    assert RequestMetrics().hit_rate is None
    assert RequestMetrics().acceptance_length is None


def test_a_bias_is_kept_in_order_of_id_and_json_names_are_numbers() -> None:
    assert SamplingParams(logit_bias={"7": 1, "3": -2}).logit_bias == ((3, -2.0), (7, 1.0))  # type: ignore[arg-type]
    assert SamplingParams(bad_words="one").bad_words == ("one",)  # type: ignore[arg-type]


def test_a_schema_is_kept_as_text_and_one_grammar_is_enough() -> None:
    schema = {"type": "string"}
    given = [SamplingParams(json_schema=schema), SamplingParams(json_schema='{"type":  "string"}')]
    assert given[0] == given[1]
    assert hash(given[0]) == hash(given[1])
    assert all(params.constrained for params in given)
    assert SamplingParams(json_schema=True).constrained  # type: ignore[arg-type]
    assert not SamplingParams().constrained
    with pytest.raises(RequestRefused, match="regex and grammar are both given"):
        SamplingParams(regex="a", grammar="b")
