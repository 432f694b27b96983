"""`saguaro serve`: an OpenAI-compatible server (docs/serving.md).

Must not know: HTTP. Tests: tests/cli/test_serve.py, tests/server/test_process.py.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saguaro.cli.checks import check_engine
from saguaro.cli.options import add_engine_flags, engine_config, llm_arguments, read_text
from saguaro.cli.parser import Parser, number, whole
from saguaro.cli.serve_output import log_without_waiting, say, settle
from saguaro.config import EngineConfig
from saguaro.errors import ConfigError

if TYPE_CHECKING:
    from saguaro.server.options import ServerOptions

HOST, PORT = "127.0.0.1", 8000
LOG_LEVELS = ("debug", "info", "warning", "error")
LIMITS: dict[str, tuple[Any, str]] = {
    "max_queue": (whole, "choices that may wait beyond those that run; further ones get 429 (default 256)"),
    "request_seconds": (number, "longest time of a request; 0 is no limit (default 600)"),
    "max_body": (whole, "bytes of a request's body (default 8388608)"),
    "drain_seconds": (number, "how long requests may go on after SIGTERM (default 30)"),
    "send_seconds": (number, "longest time in which a client may send its request (default 60)"),
    "read_seconds": (number, "a client that reads nothing of its answer for so long is left (default 60)"),
    "patience": (number, "seconds of silence after which the engine counts as dead and is ended (default 20)"),
    "tool_parser": (str, "hermes, llama, none, a dotted path, or auto: the one that fits the tokenizer"),
    "reasoning_parser": (str, "qwen3, none, a dotted path, or auto"),
    "on_engine_death": (str, "restart (the default), stay (answer 503, for a health check to find) or exit (status 1)"),
}
"""Flags that are fields of `ServerOptions`."""


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    group = parser.add_argument_group("server")
    group.add_argument("--host", default=HOST, metavar="X", help=f"address to listen at (default {HOST}: this machine)")
    group.add_argument("--port", type=whole, default=PORT, metavar="X", help=f"0 takes any free one (default {PORT})")
    group.add_argument(
        "--served-model-name", action="append", default=[], metavar="X",
        help="what the model is called; may be given several times (default: the file's or folder's name)",
    )  # fmt: skip
    group.add_argument(
        "--api-key-file", metavar="FILE", help="a file with a key a line; or one key in SAGUARO_API_KEY (default: none)"
    )
    group.add_argument(
        "--cors-origin", action="append", default=[], metavar="X", help="let pages of this origin ask; * is any"
    )
    group.add_argument("--log-level", default="info", choices=LOG_LEVELS, help="(default info)")
    for name, (kind, text) in LIMITS.items():
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, dest=name, type=kind, default=argparse.SUPPRESS, metavar="X", help=text)
    add_engine_flags(parser, without=("max_waiting",))  # --max-queue bounds the queue, and its refusal is a 429


def run(options: argparse.Namespace) -> int:
    """Serve until a signal."""
    from saguaro.server.listening import open_socket
    from saguaro.server.options import ServerOptions

    config = engine_config(options)
    settings = ServerOptions(
        names=tuple(options.served_model_name) or (name_of(config.target),),
        api_keys=api_keys(options.api_key_file),
        origins=tuple(options.cors_origin),
        **{name: getattr(options, name) for name in LIMITS if hasattr(options, name)},
    )
    check_engine(config)
    logging.getLogger("saguaro").setLevel(options.log_level.upper())
    log_without_waiting()
    try:
        with open_socket(options.host, options.port) as listener:
            return _serve(config, settings, listener)
    finally:
        settle()


def _serve(config: EngineConfig, settings: ServerOptions, listener: socket.socket) -> int:
    """Load the models and serve."""
    from saguaro import AsyncLLM
    from saguaro.server.listening import address_of
    from saguaro.server.serving import serve

    address = address_of(listener)
    say(f"loading {config.target} ...")
    llm = AsyncLLM(**llm_arguments(config))
    try:
        told = f"serving {settings.names[0]} at {address} (mode {llm.mode}); Ctrl-C stops"
        return serve(llm, settings, listener, ready=lambda: say(told))
    finally:
        llm.close()


def name_of(target: str) -> str:
    """What a model is called: the name of its file or folder; hub ids and toys as they are."""
    return Path(target).name if Path(target).exists() else target


def api_keys(file: str | None) -> tuple[str, ...]:
    """The keys of a file, one a line, and the one of the environment.

    Raises:
        ConfigError: the file has none.
    """
    keys = [os.environ["SAGUARO_API_KEY"]] if os.environ.get("SAGUARO_API_KEY") else []
    if file is not None:
        lines = [line.strip() for line in read_text(file).splitlines()]
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise ConfigError(f"{file} holds no API key; write one a line.")
        keys += found
    return tuple(keys)
