"""`saguaro chat`: a conversation in the terminal, with models of this machine or with a running server (docs/chat.md).

Must not know: what is said (`conversation`), how it is read (`chat_input`) or shown (`chat_view`).
Tests: tests/cli/test_chat.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from saguaro.cli.chat_input import EditingReader, PlainReader, prepare_history, state_folder
from saguaro.cli.checks import check_engine, check_grammar
from saguaro.cli.conversation import COMMANDS, GREETING, Conversation
from saguaro.cli.options import (
    SAMPLING_FLAGS,
    add_engine_flags,
    add_sampling_flags,
    engine_config,
    engine_options,
    llm_arguments,
    sampling_params,
)
from saguaro.cli.parser import Parser
from saguaro.errors import ConfigError

if TYPE_CHECKING:
    from saguaro.cli.chat_engine import EngineBackend
    from saguaro.cli.chat_server import ServerBackend
    from saguaro.cli.chat_view import MarkdownView, PlainView

MAX_TOKENS = 1024
LOADING = "loading ..."


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    parser.add_argument("--url", metavar="URL", help="talk with a running server instead of models of this machine")
    parser.add_argument("--system", metavar="TEXT", help="system message")
    parser.add_argument("--plain", action="store_true", help="answers as plain text, not as Markdown")
    parser.add_argument(
        "--history", action=argparse.BooleanOptionalAction, default=True, help="keep what is typed for the next run"
    )
    add_sampling_flags(parser, without=("n", "logprobs", "prompt_logprobs"))
    add_engine_flags(parser, target_required=False)


def run(options: argparse.Namespace) -> int:
    """Talk until /quit or the end of input; 1 when input was a file and an answer failed."""
    given = [name for name in SAMPLING_FLAGS if hasattr(options, name)]
    if "max_tokens" not in given:
        options.max_tokens = MAX_TOKENS
        given.append("max_tokens")
    on_screen = sys.stdout.isatty()
    backend, opening = (
        _of_server(options, given) if options.url is not None else _of_engine(options, quiet=not on_screen)
    )
    try:
        view = _view(plain=options.plain or not on_screen)
        reader = _reader(history=options.history, on_screen=on_screen)
        if reader.interactive:
            view.note(opening + GREETING)
        done = Conversation(backend, reader, view, system=options.system).run()
        return 0 if done or reader.interactive else 1
    finally:
        backend.close()


def _of_engine(options: argparse.Namespace, *, quiet: bool) -> tuple[EngineBackend, str]:
    if not hasattr(options, "target"):
        raise ConfigError("nobody to talk with; give --target T --draft D, or --url of a running server.")
    config, params = engine_config(options), sampling_params(options)
    check_grammar(check_engine(config), params)

    from saguaro import AsyncLLM
    from saguaro.cli.chat_engine import EngineBackend

    if not quiet:
        print(LOADING, end="\r", flush=True)
    try:
        llm = AsyncLLM(**llm_arguments(config))
    finally:
        if not quiet:
            print(" " * len(LOADING), end="\r", flush=True)
    try:
        return EngineBackend(llm, params, mode=config.mode), f"mode {llm.mode}. "
    except BaseException:
        llm.close()
        raise


def _of_server(options: argparse.Namespace, given: list[str]) -> tuple[ServerBackend, str]:
    if wrong := engine_options(options):
        flags = ", ".join("--" + name.replace("_", "-") for name in wrong)
        raise ConfigError(f"{flags} and --url exclude each other: the engine is the server's.")

    from saguaro.cli.chat_server import ServerBackend, body_of
    from saguaro.cli.remote import Remote

    remote = Remote(options.url)
    backend = ServerBackend(remote, body_of(sampling_params(options), given))
    return backend, f"{backend.model} at {remote.url}. "


def _view(*, plain: bool) -> MarkdownView | PlainView:
    from rich.console import Console

    from saguaro.cli.chat_view import MarkdownView, PlainView

    console = Console()
    return PlainView(sys.stdout) if plain or console.is_dumb_terminal else MarkdownView(console)


def _reader(*, history: bool, on_screen: bool) -> EditingReader | PlainReader:
    typed = sys.stdin.isatty()
    if not (typed and on_screen) or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return PlainReader(sys.stdin, interactive=typed)
    path: Path | None = None
    if history:
        try:
            path = prepare_history(state_folder())
        except OSError as error:
            print(f"the history is not kept: {error.filename}: {error.strerror}.", file=sys.stderr)
    return EditingReader(COMMANDS, path)
