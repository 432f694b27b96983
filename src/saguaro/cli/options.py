"""Flags made from the fields of `EngineConfig` and `SamplingParams`, one source for names, defaults and checks.

A flag that was not given is absent from the result, so that every default is the configuration's own.
Must not know: sub-commands, engines. Tests: tests/cli/test_options.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from saguaro.cli.parser import Parser, number, number_or_auto, whole, whole_or_auto
from saguaro.config import EngineConfig, FanOut, frozen_fan_out
from saguaro.errors import ConfigError
from saguaro.request import SamplingParams


def _fan_out(text: str) -> FanOut:
    """A policy by name, or F_0,...,F_K, or two such lists with a slash between them."""
    if not text.translate(str.maketrans("", "", ",/ ")).isdigit():
        return text
    lists = [tuple(whole(part) for part in each.split(",") if part.strip()) for each in text.split("/")]
    return frozen_fan_out(lists if len(lists) > 1 else lists[0])


def _bias(text: str) -> tuple[int, float]:
    """`id=value`."""
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form id=value") from None


def _written(text: str) -> str:
    """What a file holds, or the text itself where there is no such file."""
    path = Path(text)
    try:
        return read_text(text) if len(text) < LONGEST_PATH and path.is_file() else text
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be read: {error.strerror}") from None


def _pair(text: str) -> tuple[str, Any]:
    """`key=value`, the value a whole number, a number or text."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    for kind in (int, float):
        try:
            return key, kind(value)
        except ValueError:
            continue
    return key, value


LONGEST_PATH = 1024
MODELS = "a directory, a .gguf file, a hub id or toy:..."
# name of the field: (how the text is read, what it means)
ENGINE_FLAGS: dict[str, tuple[Any, str]] = {
    "target": (str, f"the model whose output you get: {MODELS}"),
    "draft": (str, f"the smaller model that guesses: {MODELS}"),
    "mode": (str, "auto (whichever is fastest, also while running), ar, sd or ssd"),
    "lookahead": (whole_or_auto, "K, tokens of a proposal, or auto"),
    "budget": (whole_or_auto, "B, branches of a round, or auto"),
    "fan_out": (
        _fan_out,
        "a policy by name, auto, or F_0,...,F_K, or F_0,...,F_K/F_0,...,F_K after hits and after misses",
    ),
    "tree": (
        whole_or_auto,
        "nodes of a proposal that is a tree, for modes sd and ssd, or auto: as many as pay; 0 makes chains",
    ),
    "verification": (str, "shared_noise or rejection"),
    "saguaro_c": (number_or_auto, "C of Saguaro sampling, for rejection only, or auto: the profile's"),
    "fallback": (str, "what answers a miss: adaptive, none, random, ngram, own_row or neural"),
    "fallback_corpus": (whole, "tokens of earlier outputs kept for the fallback ngram to look up"),
    "pacing": (str, "free, or lockstep for experiments"),
    "target_device": (str, "cpu:0, cpu:0-1 or auto"),
    "draft_device": (str, "the same for the draft"),
    "dtype": (str, "float32, bfloat16, int8 or auto"),
    "draft_dtype": (str, "the same for the draft, or int4; auto: int4 beside an int8 target unless stored as int8"),
    "max_batch": (whole, "rows that run at once"),
    "max_model_len": (whole, "prompt and output together, in tokens"),
    "drafter": (str, "kind of draft, or a dotted path"),
    "drafter_options": (_pair, "key=value, may be given several times"),
    "page_size": (whole, "slots of a page"),
    "prefill_chunk": (whole, "tokens of prompts that run in one step"),
    "mixed_chunk": (whole_or_auto, "the same beside rows that decode, or auto: below twice the usual time of a step"),
    "max_step_tokens": (whole, "tokens of all rows in one step, proposals included"),
    "max_waiting": (whole, "requests that may wait for a row; further ones are refused"),
    "kv_memory": (str, "room for the keys and values of each model: bytes, or 2GiB"),
    "kv_pages": (whole, "pages of the target, instead of --kv-memory"),
    "draft_kv_pages": (whole, "pages of the draft, instead of --kv-memory"),
    "prefix_cache": (bool, "keep keys and values for prompts that begin alike"),
    "restart_draft": (bool, "start a new draft process when one dies"),
    "channel": (str, "processes, or loopback: everything in one process"),
    "round_log": (str, "a file that gets a JSON line for every round of every request"),
    "trace": (bool, "keep what both processes do and when"),
    "profile": (str, "what `saguaro calibrate` wrote for this pair"),
    "observe": (whole, "candidates of each position that the draft keeps of every round, for a calibration"),
}
SAMPLING_FLAGS: dict[str, tuple[Any, str]] = {
    "max_tokens": (whole, "at most this many tokens are generated"),
    "temperature": (number, "0 is greedy"),
    "top_k": (whole, "keep the k most likely tokens; 0 keeps all"),
    "top_p": (number, "keep the smallest set of tokens that has this probability"),
    "min_p": (number, "keep tokens at least this many times as likely as the best"),
    "repetition_penalty": (number, "divides the logits of tokens in prompt or output"),
    "presence_penalty": (number, "taken from the logits of tokens in the output"),
    "frequency_penalty": (number, "taken as often as the token is in the output"),
    "logit_bias": (_bias, "id=value, may be given several times"),
    "bad_words": (str, "a string that is not generated; may be given several times"),
    "min_tokens": (whole, "so many tokens come before a stop token may"),
    "seed": (whole, "key of the noise; without it one is drawn and reported"),
    "stop": (str, "end before this text; may be given several times"),
    "stop_token_ids": (whole, "end at this token; may be given several times"),
    "ignore_eos": (bool, "do not end at the model's own stop tokens"),
    "speculation": (whole, "tokens proposed at a time at most; 0 decodes without the draft"),
    "json_schema": (_written, "a file or text: the output is JSON that fits this schema"),
    "json_object": (bool, "the output is a JSON object"),
    "regex": (str, "the output matches this regular expression as a whole"),
    "grammar": (_written, "a file or text: the output follows this Lark grammar"),
    "n": (whole, "choices of each prompt, each with its own noise"),
    "prompt_logprobs": (whole, "the same for the tokens of the prompt"),
    "logprobs": (whole, "log probabilities of each token and of so many likeliest ones, with --json"),
    "skip_special_tokens": (bool, "leave special tokens out of the text"),
}
REPEATED = {
    "drafter_options": "--drafter-option",
    "stop": "--stop",
    "stop_token_ids": "--stop-token-id",
    "logit_bias": "--logit-bias",
    "bad_words": "--bad-word",
}


def add_engine_flags(parser: Parser, *, without: tuple[str, ...] = (), target_required: bool = True) -> None:
    """One flag for each field of `EngineConfig` but `trace`, which `saguaro trace` is for."""
    group = parser.add_argument_group("engine")
    required = ("target",) if target_required else ()
    _add(group, ENGINE_FLAGS, EngineConfig, without=(*without, "trace"), required=required)


def add_sampling_flags(parser: Parser, *, without: tuple[str, ...] = ()) -> None:
    """One flag for each field of `SamplingParams`."""
    _add(parser.add_argument_group("sampling"), SAMPLING_FLAGS, SamplingParams, without=without)


def engine_config(options: argparse.Namespace, **extra: Any) -> EngineConfig:
    """The engine configuration of parsed options; `extra` wins over what was given."""
    return EngineConfig.from_options(**{**engine_options(options), **extra})


def engine_options(options: argparse.Namespace) -> dict[str, Any]:
    """Engine options that were given, by field name."""
    given = {name: getattr(options, name) for name in ENGINE_FLAGS if hasattr(options, name)}
    if "drafter_options" in given:
        given["drafter_options"] = dict(given["drafter_options"])
    return given


def llm_arguments(config: EngineConfig) -> dict[str, Any]:
    """Constructor arguments of `LLM` that make exactly this configuration, with the folders of the environment."""
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    return {**values, "drafter_options": dict(config.drafter_options), **folders()}


def folders() -> dict[str, Path]:
    """Caches that the environment moves: the hub's (HF_HUB_CACHE, HF_HOME) and packed weights (SAGUARO_CACHE)."""
    home, hub = os.environ.get("HF_HOME"), os.environ.get("HF_HUB_CACHE")
    chosen = {"hub_cache": hub or (f"{home}/hub" if home else None), "cache_dir": os.environ.get("SAGUARO_CACHE")}
    return {name: Path(path).expanduser() for name, path in chosen.items() if path}


def sampling_params(options: argparse.Namespace, **extra: Any) -> SamplingParams:
    """The sampling parameters of parsed options; `extra` wins over what was given."""
    given = {name: getattr(options, name) for name in SAMPLING_FLAGS if hasattr(options, name)}
    return SamplingParams(**{**given, **extra})


def read_text(source: str) -> str:
    """The text of a file, or of standard input for `-`."""
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        where = "standard input" if source == "-" else source
        raise ConfigError(f"{where} is not UTF-8 text; convert it first.") from None


def _add(
    group: argparse._ArgumentGroup,
    flags: dict[str, tuple[Any, str]],
    of: type,
    *,
    without: tuple[str, ...],
    required: tuple[str, ...] = (),
) -> None:
    defaults = {field.name: field.default for field in fields(of)}
    for name, (kind, text) in flags.items():
        if name in without:
            continue
        flag = "--" + name.replace("_", "-")
        default = defaults[name]
        if isinstance(default, (str, int, float)) and not isinstance(default, bool):
            text += f" (default {default})"
        text = text.replace("%", "%%")
        common: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": text}
        if kind is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, **common)
        elif name in REPEATED:
            group.add_argument(REPEATED[name], action="append", type=kind, metavar="X", **common)
        else:
            group.add_argument(flag, type=kind, metavar="X", required=name in required, **common)
