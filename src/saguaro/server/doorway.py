"""What every request passes: an id, the key, the size of the body, the log line and the count.

It stands outside the application, so that also an answer made by the framework has an id, and an error that nobody
caught is logged with it. Keys and bodies are never logged. Must not know: paths' meanings, engines.
Tests: tests/server/test_doorway.py.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException

from saguaro.server.errors import ApiError, slow_request
from saguaro.server.limits import Receive, key_fits
from saguaro.server.options import ServerOptions

log = logging.getLogger(__name__)

Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]
HEALTH = "/health"
PAGE_FOLDER = "/page/"
OPEN_PATHS = (HEALTH, "/")
"""Paths that need no key, those of the page's files besides: a health check has none, and the page asks for it."""
WATCHED_PATHS = (HEALTH, "/metrics", "/state")
"""Paths that are asked all the time: only what is wrong there is worth a line."""
USABLE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class Doorway:
    """An ASGI application around another.

    Args:
        app: the other one.
        options: keys and sizes.
        count: is told of the path, the status and the seconds of each answer.
        closing: whether the server takes no more requests.
    """

    def __init__(
        self,
        app: App,
        options: ServerOptions,
        *,
        count: Callable[[str, int], None],
        closing: Callable[[], bool],
    ) -> None:
        self._app, self._options, self._count, self._closing = app, options, count, closing

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        request_id = _usable(headers.get(b"x-request-id", b"")) or secrets.token_hex(12)
        begin, status = time.monotonic(), 499

        async def answered(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (b"x-request-id", request_id.encode())]}
            await send(message)

        try:
            refusal = self._refusal(scope, headers)
            if refusal is not None:
                await send_error(refusal, answered)
            else:
                await self._app(scope, self._bounded(receive), answered)
        except Exception:
            log.exception("%s %s %s failed", request_id, scope["method"], scope["path"])
            if status == 499:
                await send_error(ApiError(500, "internal error; the log of the server has more."), answered)
        finally:
            milliseconds = 1000 * (time.monotonic() - begin)
            level = logging.DEBUG if scope["path"] in WATCHED_PATHS and status == 200 else logging.INFO
            log.log(level, "%s %s %r %d %.0f ms", request_id, scope["method"], scope["path"], status, milliseconds)
            self._count(scope["path"], status)

    def _refusal(self, scope: Any, headers: dict[bytes, bytes]) -> ApiError | None:
        options = self._options
        if self._closing() and scope["path"] != HEALTH:
            return ApiError(503, "the server is stopping; try again later.", code="stopping", retry_after=5)
        if options.api_keys and not _open(scope["path"]):
            given = headers.get(b"authorization", b"").decode("latin-1")
            if not key_fits(given, options.api_keys):
                return ApiError(
                    401, "the API key is missing or wrong; send Authorization: Bearer KEY.", code="invalid_api_key"
                )
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > options.max_body:
            return _too_large(options.max_body)
        return None

    def _bounded(self, receive: Receive) -> Receive:
        """`receive` that breaks off when the body is longer than allowed, whatever its length was said to be, or takes
        too long to come.
        """
        left, seconds = self._options.max_body, self._options.send_seconds
        whole = False
        deadline = asyncio.get_running_loop().time() + seconds

        async def bounded() -> Any:
            nonlocal left, whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, slow_request(seconds).message) from None
            if message["type"] == "http.request":
                whole = not message.get("more_body", False)
                left -= len(message.get("body", b""))
                if left < 0:
                    raise HTTPException(413, _too_large(self._options.max_body).message)
            return message

        return bounded


def _open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(PAGE_FOLDER)


async def send_error(error: ApiError, send: Send) -> None:
    """An error as an answer."""
    body = error.encoded()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in error.headers().items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"the body is longer than {limit} bytes.", code="body_too_large")


def _usable(raw: bytes) -> str:
    """A client's own id, where it can stand in a log line."""
    text = raw.decode("latin-1")
    return text if USABLE_ID.fullmatch(text) else ""
