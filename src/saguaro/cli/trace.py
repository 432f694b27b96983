"""`saguaro trace`: run prompts and write what target and draft did, and when, for ui.perfetto.dev.

Must not know: how a trace is kept or drawn (`engine/trace.py`). Tests: tests/cli/test_trace.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from saguaro.cli.checks import check_engine, check_grammar, check_prompts
from saguaro.cli.generate import add_prompt_arguments, inputs_of, prompts_of
from saguaro.cli.options import add_engine_flags, add_sampling_flags, engine_config, llm_arguments, sampling_params
from saguaro.cli.parser import Parser
from saguaro.errors import ConfigError

LOGPROBS = ("logprobs", "prompt_logprobs")


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    add_prompt_arguments(parser)
    parser.add_argument("--out", type=Path, default=Path("trace.json"), metavar="FILE", help="default trace.json")
    parser.add_argument("--json", action="store_true", help="the summary as a JSON object")
    add_sampling_flags(parser, without=LOGPROBS)
    add_engine_flags(parser)


def run(options: argparse.Namespace) -> int:
    """Run, write, and say where the time went; returns the exit status."""
    config, params = engine_config(options, trace=True), sampling_params(options)
    if not options.out.resolve().parent.is_dir() or options.out.is_dir():
        raise ConfigError(f"{options.out} is no place for a file; name one in a folder that exists.")
    prompts = prompts_of(options)
    checked = check_engine(config)
    inputs = inputs_of(prompts, options, checked)
    check_prompts(checked, inputs)
    check_grammar(checked, params)

    from saguaro import LLM
    from saguaro.engine.trace import chrome_trace, shares

    with LLM(**llm_arguments(config)) as llm:
        completions = llm.generate(inputs, params)
        traces = llm.trace()
        mode = llm.mode
    drawn = chrome_trace(traces)
    options.out.write_text(json.dumps(drawn), encoding="utf-8")
    summary = {
        "file": str(options.out),
        "mode": mode,
        "events": len(drawn["traceEvents"]),
        "tokens": sum(len(completion.token_ids) for completion in completions),
        "processes": shares(traces),
    }
    if options.json:
        print(json.dumps(summary))
    else:
        print("\n".join(lines(summary)))
    return 0


def lines(summary: dict[str, Any]) -> list[str]:
    """The summary for people."""
    found = [f"{summary['events']} events in {summary['file']}; open it at https://ui.perfetto.dev"]
    for name, process in summary["processes"].items():
        lost = f", {process['lost_events']} older events lost" if process["lost_events"] else ""
        found.append(f"{name}: {process['seconds']:.2f} s{lost}")
        for kind, value in process["kinds"].items():
            mean = 1000 * value["seconds"] / value["count"]
            found.append(f"  {kind:<18} {value['share']:6.1%}  {value['count']:6d} × {mean:8.2f} ms")
        found.append(f"  {'the rest':<18} {process['rest']:6.1%}")
    return found
