"""Running a request and writing its answer, whole or as events: what chats, completions and responses have in common.

A `Form` writes: it gets finished choices, or their pieces as they come, and makes bodies and events of them. Must not
know: paths. Tests: tests/server/.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel

from saguaro.async_llm import Stream
from saguaro.errors import WorkerDied
from saguaro.request import Completion, Delta
from saguaro.server.answers import AnswerReader
from saguaro.server.front import Front, Tally
from saguaro.server.limits import ClientGone
from saguaro.server.render import Counts, Writer
from saguaro.server.streaming import DONE, KEEP_ALIVE, EventStream, Json, around, as_one, event, plain
from saguaro.server.translate import Asked, check_text, num_choices
from saguaro.server.wire.requests import Generation, ResponsesRequest

CLIENT_LEFT = 499


class Form(ABC):
    """How the answer of one request is written."""

    def __init__(self, front: Front, asked: Asked, request: Any) -> None:
        self.front, self.asked = front, asked
        self.tokenizer = front.tokenizer
        self._readers: dict[int, AnswerReader] = {}

    @abstractmethod
    def body(self, completions: Sequence[Completion], count: Callable[[], Counts]) -> dict[str, Any]:
        """The whole answer; `count` gives the usage, once the answers were read."""

    @abstractmethod
    def begin(self, choices: int) -> Iterator[bytes]:
        """Events before any text."""

    @abstractmethod
    def step(self, index: int, delta: Delta) -> Iterator[bytes]:
        """Events of a piece of a choice."""

    @abstractmethod
    def end(self, counts: Counts) -> Iterator[bytes]:
        """Events after all choices have ended."""

    def reader(self, index: int) -> AnswerReader:
        """What reads a choice."""
        if index not in self._readers:
            self._readers[index] = self.asked.reader()
        return self._readers[index]

    def reasoning_tokens(self, index: int, token_ids: Sequence[int]) -> int:
        """Tokens of a choice that are reasoning: those before the token that ends it."""
        closing = getattr(self.front.parsers.reasoning, "close", None)
        if closing is None or not self.reader(index).answer.reasoning:
            return 0
        mark = self.tokenizer.encode(closing, add_special=False)
        return token_ids.index(mark[0]) if len(mark) == 1 and mark[0] in token_ids else len(token_ids)


class ChoicesForm(Form):
    """Answers that are lists of choices: chats and completions."""

    chat: bool

    def __init__(self, front: Front, asked: Asked, request: Generation) -> None:
        super().__init__(front, asked, request)
        self.writer = Writer(front.name, self.chat)
        self.reports = bool(request.return_metrics)
        self.tells_usage = bool(request.stream_options and request.stream_options.include_usage)
        self.each_token = bool(request.stream_options and request.stream_options.each_token)
        self._around = around(self.writer.chunk([], tells_usage=self.tells_usage), "choices")

    @abstractmethod
    def whole(self, index: int, completion: Completion) -> dict[str, Any]:
        """A finished choice."""

    @abstractmethod
    def beginnings(self, count: int) -> Iterator[dict[str, Any]]:
        """Pieces that come before any text, in order of the choices."""

    @abstractmethod
    def pieces(self, index: int, delta: Delta) -> Iterator[dict[str, Any]]:
        """The pieces of a choice that a delta makes; the last has the reason of the end."""

    def body(self, completions: Sequence[Completion], count: Callable[[], Counts]) -> dict[str, Any]:
        choices = [self.whole(index, each) for index, each in enumerate(completions)]
        return self.writer.whole(choices, count())

    def begin(self, choices: int) -> Iterator[bytes]:
        return map(self._event, self.beginnings(choices))

    def step(self, index: int, delta: Delta) -> Iterator[bytes]:
        parts = delta.by_token() if self.each_token else (delta,)
        return (self._event(piece) for part in parts for piece in self.pieces(index, part))

    def _event(self, piece: dict[str, Any]) -> bytes:
        return plain(piece).join(self._around)

    def end(self, counts: Counts) -> Iterator[bytes]:
        if self.tells_usage:
            yield event(self.writer.usage_chunk(counts))
        yield DONE


async def answer(
    front: Front,
    http: Request,
    request: Generation | ResponsesRequest,
    translate: Any,
    form: type[Form],
    *arguments: Any,
    **named: Any,
) -> Response:
    """Run a request and answer it. `translate` is one of `translate.asked_of_...`, which gets the request, the
    tokenizer and the further arguments.

    Raises:
        ApiError, SaguaroError: it is refused, or the engine is lost.
    """
    front.check_model(request.model)
    call = front.enter(num_choices(request))
    streamed = False
    try:
        asked, streams = await front.prepare(
            _begun, front, request, partial(translate, request, front.tokenizer, *arguments, **named)
        )
        written = form(front, asked, request)
        if request.stream:
            streamed = True
            return EventStream(_frames(written, streams), call)
        return Json(await call.run(_whole(written, streams), http.receive))
    except ClientGone:
        return Response(status_code=CLIENT_LEFT)
    finally:
        if not streamed:
            call.close()


def _begun(
    front: Front, request: Generation | ResponsesRequest, translate: Callable[[], Asked]
) -> tuple[Asked, list[Stream]]:
    """What is asked for, and its streams, in one visit of the thread for that."""
    check_text(request)
    asked = translate()
    return asked, front.streams(asked)


async def _whole(form: Form, streams: Sequence[Stream]) -> dict[str, Any]:
    tally = Tally(form.front, streams)
    try:
        completions = await asyncio.gather(*(stream.completion() for stream in streams))
    finally:
        for stream in streams:
            await stream.aclose()
        tally.close()
    return form.body(completions, partial(_counts, form, streams))


async def _frames(form: Form, streams: Sequence[Stream]) -> AsyncGenerator[bytes, None]:
    """The events of a request."""
    tally = Tally(form.front, streams)
    try:
        if beginning := b"".join(form.begin(len(streams))):
            yield beginning
        async with aclosing(as_one(streams, quiet=form.front.options.quiet_seconds)) as pieces:
            async for items in pieces:
                frames = KEEP_ALIVE if not items else b"".join(each for item in items for each in form.step(*item))
                if frames:
                    yield frames
    except WorkerDied as error:
        raise form.front.keeper.told(error) from error
    finally:
        tally.close()
    yield b"".join(form.end(_counts(form, streams)))


def _counts(form: Form, streams: Sequence[Stream]) -> Counts:
    """The usage: each prompt counts once, whatever `n` is."""
    counts = Counts(reasoning=0 if form.asked.reasons else None)
    for number, stream in enumerate(streams):
        progress = stream.progress
        if number % form.asked.params.n == 0:
            counts.prompt += len(progress.prompt)
            counts.cached += progress.metrics.cached_tokens
        if not form.asked.scores_only:
            counts.completion += len(progress.tokens)
        if counts.reasoning is not None:
            counts.reasoning += form.reasoning_tokens(number, progress.tokens)
    return counts


def answers_of(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI schema says of an answer: JSON, or events."""
    event = {"type": "object", "properties": {"event": {"type": "string"}, "data": {"type": "string"}}}
    return {200: {"model": model, "content": {"text/event-stream": {"schema": event}}}}
