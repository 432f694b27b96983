"""What is served and how it does: `/v1/models`, `/tokenize`, `/detokenize`, `/health`, `/state`, `/metrics`.

Must not know: how text is generated. Tests: tests/server/.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from saguaro.server.errors import ApiError
from saguaro.server.front import Front
from saguaro.server.streaming import Json
from saguaro.server.translate import encode_chat
from saguaro.server.wire.requests import DetokenizeRequest, TokenizeRequest
from saguaro.server.wire.responses import (
    DraftState,
    EngineState,
    ErrorBody,
    HealthReport,
    Model,
    ModelList,
    Text,
    Tokens,
)

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def routes(front: Front) -> APIRouter:
    """The paths."""
    router = APIRouter()

    @router.get("/v1/models", responses={200: {"model": ModelList}}, tags=["models"])
    async def models() -> Response:
        """The served model, by each of its names."""
        return Json({"object": "list", "data": [_model(front, name) for name in front.options.names]})

    @router.get("/v1/models/{name:path}", responses={200: {"model": Model}}, tags=["models"])
    async def model(name: str) -> Response:
        """One name of the served model."""
        front.check_model(name)
        return Json(_model(front, name))

    @router.post("/tokenize", responses={200: {"model": Tokens}}, tags=["tokens"])
    async def tokenize(body: TokenizeRequest) -> Response:
        """Token ids of a text or of a rendered conversation."""
        front.check_model(body.model)
        return Json(await front.prepare(_tokenize, front, body))

    @router.post("/detokenize", responses={200: {"model": Text}}, tags=["tokens"])
    async def detokenize(body: DetokenizeRequest) -> Response:
        """The text of token ids."""
        front.check_model(body.model)
        if any(token < 0 for token in body.tokens):
            raise ApiError(400, "tokens must be ids of 0 or more.", param="tokens")
        text = await front.prepare(front.tokenizer.decode, body.tokens, skip_special=False)
        return Json({"prompt": text})

    @router.get("/health", responses={200: {"model": HealthReport}, 503: {"model": HealthReport}}, tags=["state"])
    async def health() -> Response:
        """200 while requests are served (alive, or degraded: without the draft), else 503 (dead, or stopping)."""
        found = await front.health()
        report = {"status": found.status, "reason": found.reason, "mode": front.llm.mode}
        return Json(report, status_code=found.http_status)

    @router.get("/state", responses={200: {"model": EngineState}, 503: {"model": ErrorBody}}, tags=["state"])
    async def state() -> Response:
        """How the engine decodes now: mode and gear, lookahead, budget, and how busy its draft was."""
        found = await front.watch.statistics()
        if found is None:
            raise ApiError(503, "the engine has said nothing for a while.", code="engine_silent")
        return Json(_state(front, found))

    @router.get("/metrics", response_class=PlainTextResponse, tags=["state"])
    async def metrics() -> Response:
        """What Prometheus reads."""
        return Response(await front.metrics_page(), media_type=METRICS_TYPE)

    return router


def _model(front: Front, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": front.created,
        "owned_by": "saguaro",
        "max_model_len": front.llm.context,
    }


def _state(front: Front, found: Mapping[str, Any]) -> dict[str, Any]:
    plan, gears, draft = found["plan"], found["gears"], found.get("draft")
    mode = plan["mode"]
    return {
        "model": front.name,
        "mode": mode,
        "gear": gears["gear"],
        "lookahead": None if mode == "ar" else gears["lookahead"],
        "budget": gears["budget"] if mode == "ssd" else None,
        "verification": plan["verification"],
        "context": front.llm.context,
        "max_batch": front.llm.max_batch,
        "running": found["running"],
        "waiting": found["waiting"],
        "draft_name": None if plan["draft"] is None else PurePath(plan["draft"]).name,  # not where it lies
        "draft": None if draft is None else {name: draft[name] for name in DraftState.model_fields},
    }


def _tokenize(front: Front, body: TokenizeRequest) -> dict[str, Any]:
    if (body.prompt is None) == (body.messages is None):
        raise ApiError(400, "give either prompt or messages.", param="prompt")
    if body.messages is not None:
        ids = encode_chat(body.messages, front.tokenizer, body.tools or [], body.chat_template_kwargs)
    else:
        ids = front.tokenizer.encode(body.prompt or "", add_special=body.add_special_tokens)
    texts = [front.tokenizer.token_bytes(token).decode("utf-8", errors="replace") for token in ids]
    return {
        "count": len(ids),
        "max_model_len": front.llm.context,
        "tokens": ids,
        "token_strs": texts if body.return_token_strs else None,
    }
