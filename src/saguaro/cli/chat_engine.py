"""Answers from an engine of this process's own.

The engine belongs to `AsyncLLM`, whose thread no Ctrl-C interrupts; a loop in a second thread carries its pieces here.
Must not know: terminals, HTTP. Tests: tests/cli/test_chat.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from saguaro.async_llm import AsyncLLM, Stream
from saguaro.cli.conversation import Message, Part
from saguaro.config import MODES
from saguaro.errors import ConfigError, RequestRefused
from saguaro.registry import nearest
from saguaro.request import Delta, SamplingParams
from saguaro.server.answers import AnswerReader, Parsers

Value = TypeVar("Value")
WAIT_SECONDS = 0.25


class EngineBackend:
    """An opened `AsyncLLM`, which this object closes. `mode` is what it was asked for."""

    def __init__(self, llm: AsyncLLM, params: SamplingParams, *, mode: str) -> None:
        self._llm, self._params, self._mode = llm, params, mode
        self._reasoning = Parsers.of(llm.tokenizer).reasoning
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="saguaro-chat", daemon=True)
        self._thread.start()

    def answer(self, messages: Sequence[Message], *, attempt: int) -> Generator[Part, None, None]:
        """Pieces as rounds end. With a seed, a later attempt takes the next one.

        Raises:
            RequestRefused: the conversation does not fit. WorkerDied: the engine is lost.
        """
        ids = self._llm.chat_prompt(messages)
        if len(ids) >= self._llm.context:
            raise RequestRefused(
                f"the conversation has {len(ids)} tokens and the context is {self._llm.context}; /clear forgets it."
            )
        seed = self._params.seed
        params = self._params if seed is None else replace(self._params, seed=seed + attempt)
        stream = self._llm.stream(ids, params)
        box: SimpleQueue[Delta | Exception | None] = SimpleQueue()
        pumping = asyncio.run_coroutine_threadsafe(_pump(stream, box), self._loop)
        reader = AnswerReader(self._reasoning() if self._reasoning else None)
        try:
            while (item := _next(box)) is not None:
                if isinstance(item, Exception):
                    raise item
                pieces = reader.push(item.text) + (reader.finish() if item.finish_reason is not None else [])
                yield Part("content", "", stream.progress.metrics)
                for piece in pieces:
                    yield Part(piece.kind, piece.text)
        finally:
            pumping.cancel()

    def mode(self) -> str:
        """What was asked for and what runs now."""
        gear = self._call(self._llm.statistics())["gears"]["gear"]
        return self._mode if gear == self._mode else f"{self._mode}, at present {gear}"

    def set_mode(self, name: str) -> None:
        """Change the mode between two answers, as far as the engine's placement allows.

        Raises:
            ConfigError: it does not, or there is no such mode.
        """
        if name not in MODES:
            hint = nearest(name, MODES) or "."
            raise ConfigError(f"unknown mode {name!r}{hint} Modes: {', '.join(MODES)}.")
        self._call(self._llm.configure(mode=name))
        self._mode = name

    def close(self) -> None:
        """End the engine and the thread."""
        self._llm.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _next(box: SimpleQueue[Delta | Exception | None]) -> Delta | Exception | None:
    """The next item, waiting in short pieces: a signal just before a wait begins is seen only when the wait ends."""
    while True:
        try:
            return box.get(timeout=WAIT_SECONDS)
        except Empty:
            continue


async def _pump(stream: Stream, box: SimpleQueue[Delta | Exception | None]) -> None:
    """Carry pieces until the end, which is None or an error; a cancelled pump ends the request."""
    try:
        async for delta in stream:
            box.put(delta)
        box.put(None)
    except Exception as error:  # whoever waits must hear of it
        box.put(error)
    finally:
        await stream.aclose()
