"""What all endpoints share: the engine, the names, the queue, the calls under way, the figures.

Texts are encoded and grammars compiled in one thread beside the event loop, so that a long prompt does not hold up the
streams of others. Must not know: paths, HTTP. Tests: tests/server/.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from saguaro.async_llm import AsyncLLM, Stream
from saguaro.server.answers import Parsers
from saguaro.server.errors import ApiError
from saguaro.server.health import Health, Watch
from saguaro.server.keeper import Keeper
from saguaro.server.limits import Call, Gate
from saguaro.server.metrics import Metrics
from saguaro.server.options import ServerOptions
from saguaro.server.translate import Asked

Value = TypeVar("Value")


class Front:
    """One served model.

    Attributes:
        closing: no new request is taken.
        calls: those under way.
    """

    def __init__(self, llm: AsyncLLM, options: ServerOptions) -> None:
        self.llm, self.options = llm, options
        self.tokenizer = llm.tokenizer
        self.parsers = Parsers.of(llm.tokenizer, tools=options.tool_parser, reasoning=options.reasoning_parser)
        self.created = int(time.time())
        self.gate = Gate(llm.max_batch, options.max_queue)
        self.metrics = Metrics()
        self.watch = Watch(llm.statistics, patience=options.patience, is_open=lambda: llm.is_open)
        self.keeper = Keeper(llm, self.watch, policy=options.on_engine_death, patience=options.patience)
        self.calls: set[Call] = set()
        self.closing = False
        self._preparing = ThreadPoolExecutor(1, thread_name_prefix="saguaro-prepare")

    @property
    def name(self) -> str:
        """What answers call the model."""
        return self.options.names[0]

    def check_model(self, name: str | None) -> None:
        """Refuse a model that is not served.

        Raises:
            ApiError: 404, naming what is.
        """
        if name is not None and name not in self.options.names:
            known = ", ".join(map(repr, self.options.names))
            raise ApiError(
                404, f"model {name!r} is not served here; served: {known}.", param="model", code="model_not_found"
            )

    def enter(self, choices: int) -> Call:
        """A call with its places in the queue; it must be closed.

        Raises:
            ApiError: there is no room, or no engine.
        """
        refusal = self.keeper.refusal()
        if refusal is not None:
            raise refusal
        return Call(self.gate, choices, seconds=self.options.request_seconds, registry=self.calls)

    async def prepare(self, function: Callable[..., Value], *arguments: object, **named: object) -> Value:
        """The result of a function that encodes text, from the thread for that."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._preparing, partial(function, *arguments, **named))

    def streams(self, asked: Asked) -> list[Stream]:
        """One stream a choice, prompt by prompt; nothing runs yet.

        Raises:
            RequestRefused: a prompt cannot run.
        """
        prompts, params, rounds = asked.prompts, asked.params, asked.rounds
        return [stream for prompt in prompts for stream in self.llm.streams(prompt, params, rounds=rounds)]

    def end_all(self, error: ApiError) -> None:
        """End every call under way."""
        for call in list(self.calls):
            call.end(error)

    async def health(self) -> Health:
        """The state of the server."""
        return Health("stopping") if self.closing else (await self._look())[0]

    async def metrics_page(self) -> bytes:
        """What Prometheus reads."""
        health, statistics = await self._look()
        return self.metrics.text(health, statistics, restarts=self.keeper.restarts)

    async def _look(self) -> tuple[Health, dict[str, Any] | None]:
        """The state, and the statistics that tell it."""
        health, statistics = await self.watch.health()
        if self.closing:
            health = Health("stopping")
        elif not self.llm.is_open:
            health = Health("dead", f"{self.keeper.why()}.")
        return health, statistics

    def close(self) -> None:
        """End the thread; the engine is the owner's."""
        self._preparing.shutdown(wait=False, cancel_futures=True)


class Tally:
    """Tells the metrics of the choices of one request, each once, also of those that never ended."""

    def __init__(self, front: Front, streams: Sequence[Stream]) -> None:
        self._front, self._streams = front, streams
        self._begin = time.monotonic()

    def close(self) -> None:
        """Count every choice."""
        seconds = time.monotonic() - self._begin
        for stream in self._streams:
            progress = stream.progress
            self._front.metrics.ended(
                progress.metrics,
                progress.finish or "abort",
                prompt=len(progress.prompt),
                output=len(progress.tokens),
                seconds=seconds,
            )
