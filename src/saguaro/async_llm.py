"""`AsyncLLM`: the engine for many clients of an event loop. The asynchronous face (DESIGN section 5).

    from saguaro import AsyncLLM, SamplingParams
    async with AsyncLLM("target", draft="draft") as llm:
        async for delta in llm.stream("Hello", SamplingParams(max_tokens=32)):
            print(delta.text, end="")

One thread owns the engine (`engine/driver.py`); what it finds is handed to the loop of each client. A client that
stops reading costs one delta of memory: later ones are merged into it, and nobody waits for it. This is the only file
in which asyncio meets the engine. Must not know: text (`choices.py`), workers. Tests: tests/llm/, tests/reports/.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from saguaro.choices import Choice, Prompt, error_of, merged, open_intake
from saguaro.engine.driver import Driver, opening
from saguaro.engine.engine import open_engine
from saguaro.engine.interface import about
from saguaro.engine.resolve import Plan
from saguaro.engine.target import Event, Failure
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

    def _start(self, choices: Sequence[Choice], *, streams: bool) -> _Client:
        client = _Client(self._driver, streams=streams)
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

    def _hold(self, driver: Driver[_Client]) -> None:
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
        self.client: _Client | None = None

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Delta:
        if self._closed:
            raise StopAsyncIteration
        if self.client is None:
            self.client = self._llm._start([self._choice], streams=True)
        try:
            delta = await self.client.next_delta()
        except BaseException:  # a cancelled reader will not come back
            self._end()
            raise
        if delta is None:
            raise StopAsyncIteration
        return delta

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


class _Client:
    """What one call waits for: its choices under way and, for a stream, at most one delta that was not read.

    All of it belongs to the loop of the call; the engine's thread only schedules `take` and `fail` there.
    """

    def __init__(self, driver: Driver[_Client], *, streams: bool) -> None:
        self.loop = asyncio.get_running_loop()
        self.open: dict[int, Choice] = {}
        self._driver = driver
        self._streams = streams
        self._delta: Delta | None = None
        self._error: Exception | None = None
        self._news = asyncio.Event()

    async def next_delta(self) -> Delta | None:
        """What came since the last piece, or None after the last one."""
        while self._delta is None and self.open:
            self._news.clear()
            await self._news.wait()
        delta, self._delta = self._delta, None
        if delta is None:
            self._raise()
        return delta

    async def finished(self) -> None:
        """Wait for the end of all choices."""
        while self.open:
            self._news.clear()
            await self._news.wait()
        self._raise()

    def take(self, event: Event) -> None:
        """One event of the engine."""
        number, ended = about(event)
        choice = self.open.get(number)
        if choice is None:
            return  # left, or ended at a stop string, while the event was under way
        if isinstance(event, Failure):
            self.fail(error_of(event))
            return
        try:
            delta = choice.add(event[1])
        except Exception as error:  # the caller must hear of it: nobody else waits for this request
            self.fail(error)
            return
        if delta.finish_reason is not None:
            del self.open[number]
            if not ended:  # at a stop string, of which the engine knows nothing
                self._driver.abort(number)
        self._show(delta)

    def _show(self, delta: Delta) -> None:
        if self._streams:
            self._delta = delta if self._delta is None else merged(self._delta, delta)
        if self._streams or not self.open:
            self._news.set()

    def fail(self, error: Exception) -> None:
        """End with an error, which comes after what is there to read."""
        if self.open:
            self._error = error
            self.leave()

    def leave(self) -> None:
        """End what runs. A collection of garbage may call this in any thread; nobody reads then."""
        numbers, self.open = list(self.open), {}
        for number in numbers:
            self._driver.abort(number)
        self._news.set()

    def abort(self) -> None:
        """End what runs as an answer, not as an error."""
        choices = list(self.open.values())
        self.leave()
        for choice in choices:
            self._show(choice.abort())

    def on_loop(self, function: Callable[[], None]) -> None:
        """Call a function in the client's loop: now when that is the loop that runs here, else soon."""
        if asyncio.get_running_loop() is self.loop:
            function()
        else:
            _schedule(self.loop, function)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


def _deliver(batch: Sequence[tuple[_Client, Event]]) -> list[_Client]:
    """Hand events to the loops of their clients, one call-back a loop; returns clients whose loop is closed."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Client, Event]]] = {}
    for client, event in batch:
        by_loop.setdefault(client.loop, []).append((client, event))
    gone: list[_Client] = []
    for loop, pairs in by_loop.items():
        if not _schedule(loop, _take, pairs):
            gone += [client for client, _ in pairs]
    return gone


def _take(pairs: Sequence[tuple[_Client, Event]]) -> None:
    for client, event in pairs:
        client.take(event)


def _lose(clients: Sequence[_Client], error: SaguaroError) -> None:
    """Tell clients that no answer will come, each by an exception of its own."""
    for client in clients:
        _schedule(client.loop, client.fail, type(error)(str(error)))


def _schedule(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> bool:
    """Have a loop call a function soon; False when it is closed, and with it all who waited there."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise
        return False
    return True


def _drive(plan: Plan) -> Driver[_Client]:
    return Driver(lambda: open_engine(plan), deliver=_deliver, lose=_lose)
