"""Running a request and writing its answer, whole or as events: what chat and text completions have in common.

Each kind gives two things: how a finished choice is written, and how the pieces of one become events. Must not know:
FastAPI's routes. Tests: tests/server/.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from saguaro.async_llm import Stream
from saguaro.request import Completion, Delta
from saguaro.server.front import Front, Tally
from saguaro.server.limits import ClientGone
from saguaro.server.render import Counts, Writer
from saguaro.server.streaming import DONE, KEEP_ALIVE, EventStream, as_one, event
from saguaro.server.translate import Asked, num_choices
from saguaro.server.wire.requests import Generation

CLIENT_LEFT = 499


class Form(ABC):
    """How the answer of one request is written."""

    chat: bool

    def __init__(self, front: Front, asked: Asked, request: Generation, writer: Writer) -> None:
        self.front, self.asked, self.request, self.writer = front, asked, request, writer
        self.tokenizer = front.tokenizer
        self.reports = bool(request.return_metrics)

    @abstractmethod
    def whole(self, index: int, completion: Completion) -> dict[str, Any]:
        """A finished choice."""

    @abstractmethod
    def beginnings(self, count: int) -> Iterator[dict[str, Any]]:
        """Pieces that come before any text, in order of the choices."""

    @abstractmethod
    def pieces(self, index: int, delta: Delta) -> Iterator[dict[str, Any]]:
        """The pieces of a choice that a delta makes; the last has the reason of the end."""

    def reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """Tokens of an answer that are reasoning."""
        return 0


async def answer(
    front: Front, http: Request, request: Generation, translate: Any, form: type[Form], *arguments: Any, **named: Any
) -> Response:
    """Run a request and answer it. `translate` is `asked_of_chat` or `asked_of_completion`, which gets the request, the
    tokenizer and the further arguments.

    Raises:
        ApiError, SaguaroError: it is refused, or the engine is lost.
    """
    front.check_model(request.model)
    call = front.enter(num_choices(request))
    streamed = False
    try:
        asked: Asked = await front.prepare(translate, request, front.tokenizer, *arguments, **named)
        streams = await front.prepare(front.streams, asked)
        written = form(front, asked, request, Writer(front.name, form.chat))
        if request.stream:
            streamed = True
            return EventStream(_frames(written, streams), call)
        return JSONResponse(await call.run(_whole(written, streams), http.receive))
    except ClientGone:
        return Response(status_code=CLIENT_LEFT)
    finally:
        if not streamed:
            call.close()


async def _whole(form: Form, streams: Sequence[Stream]) -> dict[str, Any]:
    tally = Tally(form.front, streams)
    try:
        completions = await asyncio.gather(*(stream.completion() for stream in streams))
    finally:
        for stream in streams:
            await stream.aclose()
        tally.close()
    choices = [form.whole(index, completion) for index, completion in enumerate(completions)]
    return form.writer.whole(choices, _counts(form, streams))


async def _frames(form: Form, streams: Sequence[Stream]) -> AsyncGenerator[bytes, None]:
    """The events of a request."""
    options = form.request.stream_options
    tells_usage = bool(options and options.include_usage)
    tally = Tally(form.front, streams)
    try:
        for beginning in form.beginnings(len(streams)):
            yield event(form.writer.chunk([beginning], tells_usage=tells_usage))
        async with aclosing(as_one(streams, quiet=form.front.options.quiet_seconds)) as deltas:
            async for item in deltas:
                if item is None:
                    yield KEEP_ALIVE
                    continue
                for piece in form.pieces(*item):
                    yield event(form.writer.chunk([piece], tells_usage=tells_usage))
    finally:
        tally.close()
    if tells_usage:
        yield event(form.writer.usage_chunk(_counts(form, streams)))
    yield DONE


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
            counts.reasoning += form.reasoning_tokens(progress.tokens)
    return counts
