"""`/v1/responses` for text: the newer form of a chat, with named events. Nothing is stored.

Must not know: how requests run. Tests: tests/server/test_responses_api.py.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from saguaro.request import Completion, Delta
from saguaro.server.endpoints.generation import Form, answer, answers_of
from saguaro.server.front import Front
from saguaro.server.parsers.base import Piece
from saguaro.server.render import Counts
from saguaro.server.streaming import event
from saguaro.server.translate import Asked, asked_of_response
from saguaro.server.wire.requests import ResponsesRequest
from saguaro.server.wire.responses import ResponseObject

PARTS = {"content": ("message", "output_text"), "reasoning": ("reasoning", "reasoning_text")}
"""What a kind of text is called: the item it stands in, and its part."""


class ResponseForm(Form):
    """Items of output, and the events that build them: one item for reasoning, one for the message."""

    def __init__(self, front: Front, asked: Asked, request: ResponsesRequest) -> None:
        super().__init__(front, asked, request)
        self._request = request
        self._id, self._created = "resp_" + secrets.token_hex(12), int(time.time())
        self._number = 0
        self._output: list[dict[str, Any]] = []
        self._open: str | None = None  # the kind of the item under way
        self._text = ""
        self._finish = ""

    def body(self, completions: Sequence[Completion], count: Callable[[], Counts]) -> dict[str, Any]:
        [completion] = completions
        for _ in self.step(0, Delta(completion.text, [], completion.finish_reason)):
            pass
        return self._response(self._status, count())

    def begin(self, choices: int) -> Iterator[bytes]:
        for name in ("created", "in_progress"):
            yield self._event(f"response.{name}", response=self._response("in_progress", None))

    def step(self, index: int, delta: Delta) -> Iterator[bytes]:
        pieces = self.reader(0).push(delta.text)
        if delta.finish_reason is not None:
            self._finish = delta.finish_reason
            pieces += self.reader(0).finish()
        for piece in pieces:
            yield from self._add(piece)
        if delta.finish_reason is not None:
            if self._open != "content":  # there is a message, even an empty one
                yield from self._add(Piece("content", ""))
            yield from self._close()

    def end(self, counts: Counts) -> Iterator[bytes]:
        yield self._event(f"response.{self._status}", response=self._response(self._status, counts))

    # -- items ----------------------------------------------------------------------------------------------------

    @property
    def _status(self) -> str:
        return "completed" if self._finish == "stop" else "incomplete"

    def _add(self, piece: Piece) -> Iterator[bytes]:
        if piece.kind != self._open:
            yield from self._close()
            yield from self._begin_item(piece.kind)
        if piece.text:
            self._text += piece.text
            more: dict[str, Any] = {"logprobs": []} if piece.kind == "content" else {}
            yield self._event(f"response.{PARTS[piece.kind][1]}.delta", **self._place(), delta=piece.text, **more)

    def _begin_item(self, kind: str) -> Iterator[bytes]:
        name, part = PARTS[kind]
        item: dict[str, Any] = {"id": f"{name[:3]}_{secrets.token_hex(12)}", "type": name, "status": "in_progress"}
        item |= {"role": "assistant", "content": []} if kind == "content" else {"summary": [], "content": []}
        self._open, self._text = kind, ""
        self._output.append(item)
        yield self._event("response.output_item.added", output_index=len(self._output) - 1, item=item)
        yield self._event("response.content_part.added", **self._place(), part=_part(part, ""))

    def _close(self) -> Iterator[bytes]:
        """End the item under way."""
        if self._open is None:
            return
        kind = PARTS[self._open][1]
        item = self._output[-1]
        more: dict[str, Any] = {"logprobs": []} if self._open == "content" else {}
        yield self._event(f"response.{kind}.done", **self._place(), text=self._text, **more)
        part = _part(kind, self._text)
        yield self._event("response.content_part.done", **self._place(), part=part)
        item |= {"status": "incomplete" if self._finish == "length" else "completed", "content": [part]}
        yield self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)
        self._open = None

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._output[-1]["id"], "output_index": len(self._output) - 1, "content_index": 0}

    def _event(self, name: str, **fields: Any) -> bytes:
        self._number += 1
        return event({"type": name, "sequence_number": self._number - 1, **fields}, name=name)

    def _response(self, status: str, counts: Counts | None) -> dict[str, Any]:
        request, params = self._request, self.asked.params
        form = request.text.format if request.text is not None else None
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "model": self.front.name,
            "output": list(self._output),
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "temperature": params.temperature,
            "text": {"format": {"type": "text"} if form is None else form.model_dump(by_alias=True, exclude_none=True)},
            "tool_choice": "none",
            "tools": [],
            "top_p": params.top_p,
            "truncation": "disabled",
            "usage": None if counts is None else _usage(counts),
        }


def _part(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "text": text, **({"annotations": [], "logprobs": []} if kind == "output_text" else {})}


def _usage(counts: Counts) -> dict[str, Any]:
    return {
        "input_tokens": counts.prompt,
        "input_tokens_details": {"cached_tokens": counts.cached},
        "output_tokens": counts.completion,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning or 0},
        "total_tokens": counts.prompt + counts.completion,
    }


def routes(front: Front) -> APIRouter:
    """The path of responses."""
    router = APIRouter()

    @router.post("/v1/responses", responses=answers_of(ResponseObject), tags=["generation"])
    async def responses(body: ResponsesRequest, http: Request) -> Response:
        """Answer a message or a conversation; with `stream`, as named server-sent events."""
        return await answer(
            front, http, body, asked_of_response, ResponseForm, front.parsers, context=front.llm.context
        )

    return router
