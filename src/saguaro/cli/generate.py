"""`saguaro generate`: continue one or several prompts; text, JSON Lines, or a stream of either.

Must not know: how decoding works. Tests: tests/cli/test_generate.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from saguaro.cli.checks import Checked, check_engine, check_grammar, check_prompts
from saguaro.cli.options import (
    add_engine_flags,
    add_sampling_flags,
    engine_config,
    llm_arguments,
    read_text,
    sampling_params,
)
from saguaro.cli.parser import Parser
from saguaro.errors import ConfigError
from saguaro.request import MISS_REASONS, Completion, RequestMetrics, SamplingParams

if TYPE_CHECKING:
    from saguaro.llm import LLM


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    add_prompt_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a completion (or a piece, with --stream)")
    parser.add_argument("--stream", action="store_true", help="print text as it comes (one prompt)")
    parser.add_argument("--stats", action="store_true", help="speed and acceptance on standard error")
    add_sampling_flags(parser)
    add_engine_flags(parser)


def add_prompt_arguments(parser: Parser) -> None:
    """Flags that say what the prompts are."""
    parser.add_argument("text", nargs="?", help="the prompt; - reads standard input")
    parser.add_argument(
        "--prompt", action="append", default=[], metavar="TEXT", help="a prompt; may be given several times"
    )
    parser.add_argument(
        "--prompt-file",
        metavar="FILE",
        help="a .jsonl file with a field `prompt` a line, or a text file; - is standard input",
    )
    parser.add_argument("--chat", action="store_true", help="the prompt is a user's message; apply the chat template")
    parser.add_argument("--system", metavar="TEXT", help="system message, with --chat")


def run(options: argparse.Namespace) -> int:
    """Generate and print; returns the exit status."""
    config, params = engine_config(options), sampling_params(options)
    prompts = prompts_of(options)
    _check_output(options, prompts)
    checked = check_engine(config)
    inputs = inputs_of(prompts, options, checked)
    check_prompts(checked, inputs)
    check_grammar(checked, params)

    from saguaro import LLM

    with LLM(**llm_arguments(config)) as llm:
        if options.stream:
            return _stream(llm, inputs[0], params, as_json=options.json, stats=options.stats)
        completions = llm.generate(inputs, params)
    for completion in completions:
        if options.json:
            print(json.dumps(completion_json(completion), ensure_ascii=False))
        else:
            print(completion.text)
        if options.stats:
            print(stats_line([completion.metrics]), file=sys.stderr)
    return 0


def completion_json(completion: Completion) -> dict[str, Any]:
    """A completion as plain values, rates included."""
    return {**asdict(completion), "metrics": completion.metrics.to_dict()}


def stats_line(metrics: Iterable[RequestMetrics]) -> str:
    """Speed and acceptance of some requests, on one line."""
    done = list(metrics)
    rounds, accepted = sum(m.rounds for m in done), sum(m.accepted for m in done)
    seconds = sum(m.decode_seconds for m in done)
    parts = [f"{(rounds + accepted) / seconds:.1f} tokens/s" if seconds else "no decoding"]
    if rounds and any(m.drafted for m in done):
        parts.append(f"{1 + accepted / rounds:.2f} tokens a round")
    verified = sum(m.verified for m in done)
    if verified:
        parts.append(f"acceptance {accepted / verified:.2f}")
    looked = sum(m.hits + m.misses for m in done)
    if looked:
        reasons = {reason: sum(m.miss_reasons[reason] for m in done) for reason in MISS_REASONS}
        missed = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in reasons.items() if count)
        why = f" (misses: {missed})" if missed else ""
        parts.append(f"hit rate {sum(m.hits for m in done) / looked:.2f}{why}")
    prefilling = sum(m.prefill_seconds for m in done)
    if prefilling:
        parts.append(f"prompt {sum(m.prefill_tokens for m in done) / prefilling:.0f} tokens/s")
    parts.append(f"first token after {max((m.time_to_first_token for m in done), default=0):.2f} s")
    return ", ".join(parts)


def prompts_of(options: argparse.Namespace) -> list[str]:
    """The prompts that the options name.

    Raises:
        ConfigError: when there is none, one is empty or a file cannot be read.
    """
    given = [*([options.text] if options.text is not None else []), *options.prompt]
    prompts = [read_text("-") if prompt == "-" else prompt for prompt in given]
    if options.prompt_file is not None:
        if options.prompt_file.endswith(".jsonl"):
            from saguaro.workloads import read_prompts

            prompts += read_prompts(options.prompt_file)
        else:
            prompts.append(read_text(options.prompt_file))
    if not prompts:
        raise ConfigError("no prompt; give --prompt TEXT, --prompt-file FILE, or - for standard input.")
    if any(not prompt for prompt in prompts):
        raise ConfigError("a prompt is empty; give at least one character.")
    if options.system is not None and not options.chat:
        raise ConfigError("--system needs --chat.")
    return prompts


def _check_output(options: argparse.Namespace, prompts: list[str]) -> None:
    """Refuse what the chosen form of output has no place for."""
    if options.stream and len(prompts) > 1:
        raise ConfigError("--stream takes one prompt; leave it out for several.")
    if options.stream and getattr(options, "n", 1) != 1:
        raise ConfigError("--stream gives one text; leave --n out.")
    if hasattr(options, "logprobs") and not options.json:
        raise ConfigError("--logprobs needs --json: there is no place for them in plain text.")


def inputs_of(prompts: list[str], options: argparse.Namespace, checked: Checked) -> list[str | list[int]]:
    """The prompts as text, or as the ids of a templated conversation."""
    if not options.chat:
        return list(prompts)
    system = [{"role": "system", "content": options.system}] if options.system is not None else []
    tokenizer = checked.tokenizer
    return [tokenizer.encode_chat([*system, {"role": "user", "content": prompt}]) for prompt in prompts]


def _stream(llm: LLM, prompt: str | list[int], params: SamplingParams, *, as_json: bool, stats: bool) -> int:
    metrics = None
    for delta in llm.stream(prompt, params):
        metrics = delta.metrics or metrics
        if as_json:
            plain = {**asdict(delta), "metrics": delta.metrics.to_dict() if delta.metrics else None}
            print(json.dumps(plain, ensure_ascii=False), flush=True)
        else:
            print(delta.text, end="", flush=True)
    if not as_json:
        print()
    if stats and metrics is not None:
        print(stats_line([metrics]), file=sys.stderr)
    return 0
