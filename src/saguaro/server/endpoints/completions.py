"""`/v1/completions`: prompts in, text out.

Must not know: how requests run. Tests: tests/server/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from saguaro.request import Completion, Delta, TokenLogprob
from saguaro.server import render
from saguaro.server.endpoints.generation import ChoicesForm, answer, answers_of
from saguaro.server.front import Front
from saguaro.server.render import TextLogprobs
from saguaro.server.translate import Asked, asked_of_completion
from saguaro.server.wire.requests import CompletionRequest, Generation
from saguaro.server.wire.responses import TextCompletion


class TextForm(ChoicesForm):
    """Texts and pieces of them."""

    chat = False

    def __init__(self, front: Front, asked: Asked, request: Generation) -> None:
        super().__init__(front, asked, request)
        self._lists: dict[int, TextLogprobs] = {}

    def whole(self, index: int, completion: Completion) -> dict[str, Any]:
        entries = self._prompt_entries(completion)
        text, finish = self._echo(index) + completion.text, completion.finish_reason
        if self.asked.scores_only:
            text, finish = self._echo(index), "length"
        elif completion.logprobs is not None:
            entries += zip(completion.token_ids, completion.logprobs, strict=True)
        logprobs = None if completion.logprobs is None else self._logprobs(index, entries)
        metrics = completion.metrics if self.reports else None
        return render.choice(index, finish, logprobs, metrics, completion.rounds, text=text)

    def beginnings(self, count: int) -> Iterator[dict[str, Any]]:
        for index in range(count if self.asked.echoes is not None else 0):
            yield render.choice(index, None, None, None, text=self._echo(index))

    def pieces(self, index: int, delta: Delta) -> Iterator[dict[str, Any]]:
        if self.asked.scores_only:
            yield render.choice(index, "length", None, None, text="")
            return
        if not (delta.text or delta.logprobs or delta.rounds or delta.finish_reason):
            return
        logprobs = None
        if delta.logprobs is not None:
            logprobs = self._logprobs(index, zip(delta.token_ids, delta.logprobs, strict=True))
        metrics = delta.metrics if self.reports else None
        yield render.choice(index, delta.finish_reason, logprobs, metrics, delta.rounds, text=delta.text)

    def _echo(self, index: int) -> str:
        echoes = self.asked.echoes
        return "" if echoes is None else echoes[index // self.asked.params.n]

    def _prompt_entries(self, completion: Completion) -> list[tuple[int, TokenLogprob | None]]:
        if completion.prompt_logprobs is None:
            return []
        return list(zip(completion.prompt_token_ids, completion.prompt_logprobs, strict=True))

    def _logprobs(self, index: int, entries: Iterable[tuple[int, TokenLogprob | None]]) -> dict[str, list[Any]]:
        if index not in self._lists:
            skip = self.asked.params.skip_special_tokens
            offset = 0 if self.asked.params.prompt_logprobs is not None else len(self._echo(index))
            self._lists[index] = TextLogprobs(self.tokenizer, skip_special=skip, offset=offset)
        return self._lists[index].lists(entries)


def routes(front: Front) -> APIRouter:
    """The path of text completions."""
    router = APIRouter()

    @router.post("/v1/completions", responses=answers_of(TextCompletion), tags=["generation"])
    async def completions(body: CompletionRequest, http: Request) -> Response:
        """Continue prompts; with `stream`, as server-sent events."""
        return await answer(front, http, body, asked_of_completion, TextForm)

    return router
