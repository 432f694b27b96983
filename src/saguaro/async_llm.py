"""`AsyncLLM`: the engine for many clients of an event loop. The asynchronous face (DESIGN section 5).

    from saguaro import AsyncLLM, SamplingParams
    async with AsyncLLM("target", draft="draft") as llm:
        async for delta in llm.stream("Hello", SamplingParams(max_tokens=32)):
            print(delta.text, end="")

One thread owns the engine (`engine/driver.py`); what it finds is handed to the loop of each client
(`async_clients.py`). A client that stops reading costs one delta of memory: later ones are merged into it, and nobody
waits for it. Here alone asyncio meets the engine. Must not know: text (`choices.py`), workers. Tests: tests/llm/,
tests/reports/.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from saguaro.async_clients import Client, deliver, lose
from saguaro.choices import Choice, Prompt, open_intake
from saguaro.engine.driver import Driver, opening
from saguaro.engine.engine import open_engine
from saguaro.engine.resolve import Plan
from saguaro.engine.trace import ProcessTrace
from saguaro.errors import SaguaroError
from saguaro.request import Completion, Delta, SamplingParams


class AsyncLLM:
    """A target, optionally a draft, for any number of tasks at once.

    It may be made inside a running loop or outside, and used from several loops; making it blocks until the models are
    loaded, so in a server use `await asyncio.to_thread(AsyncLLM, ...)`. Options are those of `LLM`.

    Cancelling a task, leaving an `async for`, or `aclose` of a stream ends the request in the engine at once.

    Raises:
        ConfigError, WeightsError: before any weight is loaded, where it can be known.
    """

    def __init__(
        self,
        target: str | Path,
        draft: str | Path | None = None,
        *,
        cache_dir: str | Path | None = None,
        hub_cache: str | Path | None = None,
        **options: Any,
    ) -> None:
        self._intake = open_intake(target, draft, cache_dir=cache_dir, hub_cache=hub_cache, options=options)
        self.tokenizer = self._intake.tokenizer
        self._numbers = itertools.count(1)
        self._hold(_drive(self._intake.plan))

    # -- generating -----------------------------------------------------------------------------------------------

    async def generate(
        self, prompts: Prompt | Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None = None
    ) -> list[Completion]:
        """Complete prompts; a list of results in the order of the prompts, `n` for each.

        Args:
            prompts: a string, a list of token ids, or a list of either.
            params: one for all, or one for each prompt. Default: `SamplingParams()`.

        Raises:
            RequestRefused: when a prompt cannot run. WorkerDied: the engine is lost.
        """
        return await self._complete(self._intake.choices(prompts, params))

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Stream:
        """Complete one prompt, piece by piece. The request starts when the first piece is asked for.

        Raises:
            RequestRefused: at once, when the prompt cannot run.
        """
        return Stream(self, self._intake.choice(prompt, params))

    def streams(self, prompt: Prompt, params: SamplingParams | None = None, *, rounds: bool = False) -> list[Stream]:
        """One stream for each of the `n` choices of a prompt; any thread may ask for them.

        Args:
            prompt: a string, or a list of token ids.
            params: default: `SamplingParams()`.
            rounds: keep the records of rounds, which come with deltas and completions (docs/metrics.md).

        Raises:
            RequestRefused: at once, when the prompt cannot run.
        """
        choices = self._intake.choices([prompt], params)
        for choice in choices:
            choice.rounds = [] if rounds else None
        return [Stream(self, choice) for choice in choices]

    async def chat(self, messages: Sequence[Mapping[str, Any]], params: SamplingParams | None = None) -> Completion:
        """Answer a conversation, rendered by the target's chat template."""
        return (await self._complete([self._intake.choice(self.chat_prompt(messages), params)]))[0]

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Token ids of a rendered conversation with the generation prompt; BOS exactly once."""
        return self._intake.chat_prompt(messages)

    async def abort(self, *streams: Stream) -> None:
        """End streams, or everything that runs when none is named. Their readers get what there is, as the last piece
        or as completions, with finish_reason `abort`.
        """
        clients = [stream.client for stream in streams if stream.client is not None]
        if not streams:
            clients = await asyncio.wrap_future(self._driver.owners())
        for client in clients:
            client.on_loop(client.abort)

    async def _complete(self, choices: list[Choice]) -> list[Completion]:
        client = self._start(choices, streams=False)
        try:
            await client.finished()
        finally:
            client.leave()
        return [choice.completion() for choice in choices]

    def _start(self, choices: Sequence[Choice], *, streams: bool, news: asyncio.Event | None = None) -> Client:
        client = Client(self._driver, streams=streams, news=news)
        client.open = {next(self._numbers): choice for choice in choices}
        self._driver.submit(client, [self._intake.submission(*item) for item in client.open.items()])
        return client

    # -- the engine -----------------------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """`ar`, `sd` or `ssd`."""
        return self._driver.plan.mode

    @property
    def context(self) -> int:
        """Prompt and output of a request together, in tokens, at most."""
        return self._intake.plan.max_model_len

    @property
    def max_batch(self) -> int:
        """Choices that run at once."""
        return self._intake.plan.config.max_batch

    @property
    def is_open(self) -> bool:
        """Whether requests are taken: not after `close`, nor after the engine was lost."""
        return self._driver.is_open

    @property
    def error(self) -> SaguaroError | None:
        """Why no requests are taken; None while they are."""
        return self._driver.error

    def kill(self, reason: str) -> None:
        """End a stuck engine by force; its requests end with the reason. One in this process cannot be ended so."""
        self._driver.kill(reason)

    async def reopen(self) -> None:
        """Make a new engine in place of one that was lost, with the same placement; requests are refused meanwhile.

        Raises:
            Whatever making an engine raises; it may be tried again.
        """
        await asyncio.wrap_future(self._driver.stop())
        plan = replace(self._driver.plan, others=())
        opened = await asyncio.wrap_future(opening(lambda: _drive(plan)))
        self._ending.detach()
        self._hold(opened)

    def _hold(self, driver: Driver[Client]) -> None:
        """Use this engine; one that nobody holds any more ends."""
        self._driver = driver
        self._ending = weakref.finalize(self, driver.stop)

    async def configure(self, **changes: Any) -> None:
        """Change settings between rounds, as `LLM.configure` does."""
        await asyncio.wrap_future(self._driver.call(lambda engine: engine.configure(**changes)))

    async def statistics(self) -> dict[str, Any]:
        """The resolved plan, measured step times, running estimates, totals, waiting times and warnings."""
        return await asyncio.wrap_future(self._driver.call(lambda engine: engine.statistics()))

    async def trace(self) -> list[ProcessTrace]:
        """As `LLM.trace`."""
        return await asyncio.wrap_future(self._driver.call(lambda engine: engine.trace()))

    def close(self) -> None:
        """End the workers, waiting for it. Requests that run end with an error; closing twice is fine."""
        self._driver.stop().result()

    async def aclose(self) -> None:
        """`close` without blocking the loop."""
        await asyncio.wrap_future(self._driver.stop())

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Stream(AsyncIterator[Delta]):
    """The pieces of one completion. It ends its request when it is closed, left, or no longer held by anyone."""

    def __init__(self, llm: AsyncLLM, choice: Choice) -> None:
        self._llm = llm
        self._choice = choice
        self._closed = False
        self.client: Client | None = None

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Delta:
        if self._closed:
            raise StopAsyncIteration
        self.begin()
        assert self.client is not None
        try:
            delta = await self.client.next_delta()
        except BaseException:  # a cancelled reader will not come back
            self._end()
            raise
        if delta is None:
            raise StopAsyncIteration
        return delta

    def begin(self, news: asyncio.Event | None = None) -> None:
        """Start the request, unless it has started. Who reads several streams at once gives them one event, which is
        set when there is something to `take`.
        """
        if self.client is None:
            self.client = self._llm._start([self._choice], streams=True, news=news)

    def take(self) -> Delta | None:
        """The next piece of a stream that was begun, without waiting; None when there is none yet.

        Raises:
            What the request failed with, after its last piece.
        """
        return None if self._closed or self.client is None else self.client.piece()

    @property
    def ended(self) -> bool:
        """Whether no further piece comes."""
        return self._closed or (self.client is not None and self.client.ended)

    async def completion(self) -> Completion:
        """The whole answer at once, instead of its pieces: as `generate`, with its errors."""
        try:
            if self.client is None:
                self.client = self._llm._start([self._choice], streams=False)
            await self.client.finished()
        finally:
            self._end()
        return self._choice.completion()

    @property
    def progress(self) -> Choice:
        """What has come so far: tokens, text, counters, how it ended. It grows in the loop of the reader."""
        return self._choice

    async def aclose(self) -> None:
        """End the request if it runs; a reader that waits gets no more pieces."""
        self._end()

    def _end(self) -> None:
        self._closed = True
        if self.client is not None:
            self.client.leave()

    def __del__(self) -> None:
        if self.client is not None:
            self.client.leave()


def _drive(plan: Plan) -> Driver[Client]:
    return Driver(lambda: open_engine(plan), deliver=deliver, lose=lose)
