"""Flags are made from the fields of the configuration: none forgotten, defaults and checks in one place."""

from dataclasses import fields
from pathlib import Path

import pytest

from saguaro.cli.options import (
    ENGINE_FLAGS,
    SAMPLING_FLAGS,
    add_engine_flags,
    add_sampling_flags,
    engine_config,
    folders,
    llm_arguments,
    sampling_params,
)
from saguaro.cli.parser import Parser
from saguaro.config import EngineConfig
from saguaro.request import SamplingParams


def parse(*arguments):
    parser = Parser(prog="test")
    add_engine_flags(parser)
    add_sampling_flags(parser)
    return parser.parse_args(["--target", "toy:llama", *arguments])


def test_every_field_has_a_flag():
    assert {f.name for f in fields(EngineConfig)} == set(ENGINE_FLAGS)
    assert {f.name for f in fields(SamplingParams)} == set(SAMPLING_FLAGS)


def test_defaults_are_the_configurations_own():
    options = parse()
    assert engine_config(options) == EngineConfig("toy:llama")
    assert sampling_params(options) == SamplingParams()


def test_values_arrive():
    options = parse(
        "--draft", "d", "--mode", "ssd", "--lookahead", "3", "--budget", "auto", "--fan-out", "uniform",
        "--saguaro-c", "0.3", "--verification", "rejection", "--dtype", "int8", "--draft-dtype", "int4",
        "--max-batch", "5", "--no-restart-draft", "--page-size", "16",
        "--drafter-option", "layers=6", "--drafter-option", "share=0.5", "--drafter-option", "name=x",
    )  # fmt: skip
    expected = EngineConfig(
        "toy:llama", "d", mode="ssd", lookahead=3, budget="auto", fan_out="uniform", saguaro_c=0.3,
        verification="rejection", dtype="int8", draft_dtype="int4", max_batch=5, restart_draft=False, page_size=16,
        drafter_options={"layers": 6, "share": 0.5, "name": "x"},
    )  # fmt: skip
    assert engine_config(options) == expected


def test_fan_out_by_list():
    assert engine_config(parse("--draft", "d", "--fan-out", "3,2,1")).fan_out == (3, 2, 1)
    assert engine_config(parse("--draft", "d", "--fan-out", "2")).fan_out == (2,)


def test_sampling_values_arrive():
    options = parse(
        "--temperature", "0.7", "--top-k", "5", "--top-p", "0.9", "--seed", "-1", "--max-tokens", "7", "--stop", "a",
        "--stop", "b", "--stop-token-id", "3", "--ignore-eos", "--logit-bias", "9=1.5", "--logit-bias", "4=-2",
        "--bad-word", "no", "--min-p", "0.1", "--speculation", "2", "--n", "3",
    )  # fmt: skip
    assert sampling_params(options) == SamplingParams(
        0.7, 5, 0.9, -1, 7, ("a", "b"), (3,), ignore_eos=True, n=3, min_p=0.1, speculation=2, bad_words=("no",),
        logit_bias={4: -2, 9: 1.5},
    )  # fmt: skip


def test_llm_arguments_make_the_same_configuration(monkeypatch):
    for name in ("HF_HOME", "HF_HUB_CACHE", "SAGUARO_CACHE"):
        monkeypatch.delenv(name, raising=False)
    config = EngineConfig("t", "d", fan_out=[2, 1], drafter_options={"a": 1}, dtype="int8")
    assert EngineConfig.from_options(**llm_arguments(config)) == config


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {}),
        ({"HF_HOME": "/a"}, {"hub_cache": Path("/a/hub")}),
        ({"HF_HOME": "/a", "HF_HUB_CACHE": "/b"}, {"hub_cache": Path("/b")}),
        ({"SAGUARO_CACHE": "/c"}, {"cache_dir": Path("/c")}),
    ],
)
def test_folders_of_the_environment(monkeypatch, environment, expected):
    for name in ("HF_HOME", "HF_HUB_CACHE", "SAGUARO_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert folders() == expected
