"""`saguaro chat`: a conversation in the terminal. Ctrl-C stops an answer; `/quit`, `/clear`, `/stats`, `/help`.

Must not know: how decoding works. Tests: tests/cli/test_chat.py.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from saguaro.cli.checks import Checked, check_engine
from saguaro.cli.generate import stats_line
from saguaro.cli.options import add_engine_flags, add_sampling_flags, engine_config, llm_arguments, sampling_params
from saguaro.cli.parser import Parser
from saguaro.request import RequestMetrics, SamplingParams

if TYPE_CHECKING:
    from saguaro.llm import LLM

HELP = "/quit ends, /clear forgets the conversation, /stats shows speed and acceptance, Ctrl-C stops an answer."


def add_arguments(parser: Parser) -> None:
    """Flags of the sub-command."""
    parser.add_argument("--system", metavar="TEXT", help="system message")
    add_sampling_flags(parser, without=("n", "logprobs"))
    add_engine_flags(parser)


def run(options: argparse.Namespace) -> int:
    """Talk until /quit or the end of input."""
    config = engine_config(options)
    extra = {} if hasattr(options, "max_tokens") else {"max_tokens": 1024}
    params = sampling_params(options, **extra)
    checked = check_engine(config)

    from saguaro import LLM

    print("loading ...", end="", flush=True)
    with LLM(**llm_arguments(config)) as llm:
        print(f"\r{HELP}")
        Conversation(llm, checked, params, system=options.system).run()
    return 0


class Conversation:
    """The messages so far and the model that answers them."""

    def __init__(self, llm: LLM, checked: Checked, params: SamplingParams, *, system: str | None) -> None:
        self._llm, self._checked, self._params = llm, checked, params
        self._tokenizer = checked.tokenizer
        self._system = [{"role": "system", "content": system}] if system is not None else []
        self._messages = list(self._system)
        self._metrics: list[RequestMetrics] = []

    def run(self) -> None:
        """Read lines and answer them."""
        for line in _lines():
            if line.startswith("/"):
                if line == "/quit":
                    return
                self._command(line)
            elif line:
                self._answer(line)

    def _command(self, line: str) -> None:
        if line == "/clear":
            self._messages = list(self._system)
            print("forgotten.")
        elif line == "/stats":
            print(stats_line(self._metrics) if self._metrics else "nothing generated yet.")
        else:
            print(HELP)

    def _answer(self, line: str) -> None:
        self._messages.append({"role": "user", "content": line})
        ids = self._tokenizer.encode_chat(self._messages)
        room = self._checked.context - len(ids)
        if room < 1:
            self._messages.pop()
            print(
                f"the conversation has {len(ids)} tokens and the context is {self._checked.context}; /clear forgets it."
            )
            return
        said: list[str] = []
        pieces = self._llm.stream(ids, self._params)
        try:
            for delta in pieces:
                said.append(delta.text)
                print(delta.text, end="", flush=True)
                if delta.metrics is not None:
                    self._metrics.append(delta.metrics)
        except KeyboardInterrupt:
            print(" [stopped]", end="")
            if close := getattr(pieces, "close", None):
                close()  # ends the request
        print()
        self._messages.append({"role": "assistant", "content": "".join(said)})


def _lines() -> Iterator[str]:
    """Lines typed by the user, until the end of input; Ctrl-C at the prompt ends too."""
    with contextlib.suppress(ImportError):  # history and editing, where the platform has it
        importlib.import_module("readline")
    while True:
        try:
            yield input("> ").strip()
        except EOFError:
            print()
            return
