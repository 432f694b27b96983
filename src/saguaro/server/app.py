"""Puts the parts together: an ASGI application over a front.

Everything that goes wrong ends here as an OpenAI error body: our own errors by their `http_status`, bodies that violate
the schema as 400 naming the field, and what nobody expected as 500. Must not know: sockets, signals.
Tests: tests/server/test_app.py.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from saguaro.errors import SaguaroError, WorkerDied
from saguaro.registry import nearest
from saguaro.server import errors
from saguaro.server.doorway import PAGE_FOLDER, App, Doorway
from saguaro.server.endpoints import chat, completions, page, responses, state
from saguaro.server.errors import SLOW_REQUEST, ApiError
from saguaro.server.front import Front
from saguaro.server.streaming import Json
from saguaro.server.wire.requests import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    ResponsesRequest,
    TokenizeRequest,
)
from saguaro.server.wire.responses import ErrorBody

BODIES: dict[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatRequest,
    "/v1/completions": CompletionRequest,
    "/v1/responses": ResponsesRequest,
    "/tokenize": TokenizeRequest,
    "/detokenize": DetokenizeRequest,
}
FIELDS = frozenset({*ChatRequest.model_fields, *CompletionRequest.model_fields})
PATHS = (*BODIES, "/", "/v1/models", "/health", "/state", "/metrics", "/openapi.json")
"""What is served; everything else counts as `other` in the metrics, so that nobody can fill them with names."""
STATUSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 404, 408, 413, 422, 429, 500, 503)
}


def build_app(front: Front) -> App:
    """The application with everything around it."""
    api = build_api(front)

    def count(path: str, status: int) -> None:
        front.metrics.answered(path if path in PATHS else "/" if path.startswith(PAGE_FOLDER) else "other", status)

    app: App = Doorway(api, front.options, count=count, closing=lambda: front.closing)
    if front.options.origins:
        app = CORSMiddleware(  # outermost: a browser's question before the request carries no key
            app, allow_origins=front.options.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return app


def build_api(front: Front) -> FastAPI:
    """The paths, with errors as bodies."""
    api = FastAPI(
        title="Saguaro",
        version=version("saguaro-llm"),
        description="An OpenAI-compatible server with speculative speculative decoding.",
        docs_url=None,  # its pages load scripts from another host
        redoc_url=None,
        responses=STATUSES,
    )
    for part in (chat, completions, responses, state):
        api.include_router(part.routes(front))
    api.include_router(page.routes())

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return _answer(error)

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, SaguaroError)
        if isinstance(error, WorkerDied):
            return _answer(front.keeper.told(error))
        return _answer(errors.of_saguaro(error, FIELDS))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        model = BODIES.get(request.url.path)
        return _answer(errors.of_validation(error.errors(), model.model_fields if model else ()))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _answer(_of_http(request, error))

    async def unexpected(request: Request, error: Exception) -> Response:
        return _answer(ApiError(500, "internal error; the log of the server has more."))

    for kind, handler in (
        (ApiError, refused),
        (SaguaroError, ours),
        (RequestValidationError, invalid),
        (HTTPException, http),
        (Exception, unexpected),
    ):
        api.add_exception_handler(kind, handler)
    return api


def _answer(error: ApiError) -> Response:
    return Json(error.body(), status_code=error.status, headers=error.headers())


def _of_http(request: Request, error: HTTPException) -> ApiError:
    path, method = request.url.path, request.method
    if error.status_code == 404:
        return ApiError(404, f"there is nothing at {path}{nearest(path, PATHS) or '.'}", code="unknown_path")
    if error.status_code == 405:
        return ApiError(405, f"{path} does not take {method}.", code="method_not_allowed")
    if error.status_code == 413:
        return ApiError(413, str(error.detail), code="body_too_large")
    if error.status_code == 408:
        return ApiError(408, str(error.detail), code=SLOW_REQUEST)
    return ApiError(error.status_code, f"{str(error.detail).rstrip('.')}.")
