"""The command `saguaro`: finds the sub-command, runs it, and turns what happens into an exit status.

    0  done            2  the caller's mistake (options, files, models that do not fit), before weights load if possible
    1  it failed       130  stopped by Ctrl-C      143, 129  stopped by SIGTERM, SIGHUP

An error is one sentence on standard error; a traceback only with `--traceback`.
Must not know: what a sub-command does. Tests: tests/cli/test_main.py.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

from saguaro.cli.parser import Parser, refuse_unknown
from saguaro.errors import ConfigError, SaguaroError
from saguaro.registry import nearest

COMMANDS = {
    "demo": "the same prompts by AR, SD and SSD, live, and a table",
    "generate": "continue one or several prompts",
    "chat": "talk with a model in the terminal",
    "serve": "answer over HTTP as the OpenAI API does",
    "top": "watch a running server: speed, latencies, hits, the state of the draft",
    "bench": "measure AR, SD and SSD on a prompt file and write a record",
    "calibrate": "measure a pair of models and write a profile of it",
    "train-draft": "distil a small draft for a target from prompts",
    "trace": "run prompts and write what target and draft did, and when, for ui.perfetto.dev",
    "figures": "draw the latency-throughput frontier of a record, or the paper's figures",
    "plan": "predict AR, SD and SSD for models and hardware that need not be here",
    "pull": "bring named models to this machine",
    "doctor": "what this machine has, and whether a pair of models fits",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    show_traceback = "--traceback" in arguments
    _finish_on_signals()
    logging.basicConfig(level=logging.WARNING, format="saguaro: %(levelname)s: %(message)s", stream=sys.stderr)
    try:
        status = _dispatch([argument for argument in arguments if argument != "--traceback"])
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader went away (`| head`): nothing is wrong and nobody listens
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if show_traceback:
            traceback.print_exc()
        print(f"saguaro: {_sentence(error)}", file=sys.stderr)
        return _status(error)


def build_parser(command: str) -> Parser:
    """The parser of one sub-command."""
    parser = Parser(prog=f"saguaro {command}", description=_sentence_case(COMMANDS[command]))
    _module(command).add_arguments(parser)
    parser.add_argument("--traceback", action="store_true", help="show where an error came from")
    return parser


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if arguments else 2
    command, rest = arguments[0], arguments[1:]
    if command in ("--version", "-V"):
        from importlib.metadata import version

        print(f"saguaro {version('saguaro-llm')}")
        return 0
    if command not in COMMANDS:
        hint = nearest(command, COMMANDS) or "."
        raise ConfigError(f"unknown command {command!r}{hint} Commands: {', '.join(COMMANDS)}.")
    parser = build_parser(command)
    try:
        options, unknown = parser.parse_known_args(rest)
    except ConfigError:
        # A required option is often "missing" because it was misspelt; the misspelling is the better message.
        refuse_unknown(parser, [a for a in rest if a.startswith("--") and a.split("=")[0] not in parser.known()])
        raise
    refuse_unknown(parser, unknown)
    return _module(command).run(options)


def _module(command: str):  # type: ignore[no-untyped-def]  # a module with add_arguments and run
    return importlib.import_module(f"saguaro.cli.{command.replace('-', '_')}")


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: saguaro <command> [options]",
            "",
            *lines,
            "",
            "saguaro <command> --help says all; --version, --traceback",
        ]
    )


def _sentence_case(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _sentence(error: Exception) -> str:
    """What to tell the user: the message of our own errors; other errors with their kind."""
    if isinstance(error, SaguaroError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return f"internal error ({type(error).__name__}: {error}); run again with --traceback and report it."


def _status(error: Exception) -> int:
    if isinstance(error, SaguaroError):
        return error.exit_status
    return 2 if isinstance(error, (FileNotFoundError, IsADirectoryError, PermissionError)) else 1


def _finish_on_signals() -> None:
    """SIGTERM and SIGHUP unwind the stack like Ctrl-C, so that `with LLM(...)` ends its processes."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        try:
            signal.signal(getattr(signal, name), leave)
        except (AttributeError, ValueError):  # another platform, or not the main thread
            continue
