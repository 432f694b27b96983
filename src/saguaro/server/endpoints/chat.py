"""`/v1/chat/completions`: messages in, an assistant's message out.

Must not know: how requests run. Tests: tests/server/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from saguaro.request import Completion, Delta, TokenLogprob
from saguaro.server import render
from saguaro.server.endpoints.generation import ChoicesForm, answer, answers_of
from saguaro.server.front import Front
from saguaro.server.parsers.base import Piece
from saguaro.server.translate import Asked, asked_of_chat
from saguaro.server.wire.requests import ChatRequest, Generation
from saguaro.server.wire.responses import ChatCompletion


class ChatForm(ChoicesForm):
    """Messages and their deltas."""

    chat = True

    def __init__(self, front: Front, asked: Asked, request: Generation) -> None:
        super().__init__(front, asked, request)
        self._call_ids: dict[tuple[int, int], str] = {}

    def whole(self, index: int, completion: Completion) -> dict[str, Any]:
        reader = self.reader(index)
        reader.push(completion.text)
        reader.finish()
        found = reader.answer
        ids = (self._call_id(index, number) for number in range(len(found.calls)))
        return render.choice(
            index,
            render.finish_reason(completion.finish_reason, called=bool(found.calls)),
            self._logprobs(completion.logprobs),
            completion.metrics if self.reports else None,
            completion.rounds,
            message=render.message(found, ids),
        )

    def beginnings(self, count: int) -> Iterator[dict[str, Any]]:
        for index in range(count):
            yield render.choice(index, None, None, None, delta={"role": "assistant", "content": ""})

    def pieces(self, index: int, delta: Delta) -> Iterator[dict[str, Any]]:
        reader = self.reader(index)
        pieces = reader.push(delta.text)
        if delta.finish_reason is not None:
            pieces += reader.finish()
        if not pieces and (delta.logprobs or delta.rounds):
            pieces = [Piece("content", "")]  # what is told of a token is sent, also when its text is held back
        for place, piece in enumerate(pieces):
            entries = delta.logprobs if place == 0 else None if delta.logprobs is None else []
            written = render.delta(piece, self._call_id(index, piece.number))
            rounds = delta.rounds if place == 0 else None
            yield render.choice(index, None, self._logprobs(entries), None, rounds, delta=written)
        if delta.finish_reason is not None:
            finish = render.finish_reason(delta.finish_reason, called=bool(reader.answer.calls))
            yield render.choice(index, finish, None, delta.metrics if self.reports else None, delta={})

    def _call_id(self, index: int, number: int) -> str:
        return self._call_ids.setdefault((index, number), render.call_id())

    def _logprobs(self, entries: Sequence[TokenLogprob] | None) -> dict[str, Any] | None:
        return None if entries is None else render.chat_logprobs(entries, self.tokenizer)


def routes(front: Front) -> APIRouter:
    """The path of chats."""
    router = APIRouter()

    @router.post("/v1/chat/completions", responses=answers_of(ChatCompletion), tags=["generation"])
    async def chat_completions(body: ChatRequest, http: Request) -> Response:
        """Answer a conversation; with `stream`, as server-sent events."""
        return await answer(front, http, body, asked_of_chat, ChatForm, front.parsers, context=front.llm.context)

    return router
