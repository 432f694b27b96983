"""Errors as the OpenAI API tells them: a status and `{"error": {message, type, param, code}}`.

A bad request is never a 5xx, and what clients should not try again says so. Must not know: engines, FastAPI.
Tests: tests/server/test_errors.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from saguaro.errors import CapacityError, SaguaroError
from saguaro.registry import nearest
from saguaro.server.wire.requests import REFUSED

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
}
SLOW_REQUEST = "slow_request"


class ApiError(Exception):
    """An answer that is an error.

    Args:
        status: of HTTP.
        message: one sentence for the client.
        param: the field at fault.
        code: a word for programs.
        retry_after: seconds after which the same request may succeed.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.retry_after = status, message, param, code, retry_after

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        kind = TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        """What the official client obeys: when to try again, or not to; and whether the connection ends."""
        found = {"retry-after": str(self.retry_after)} if self.retry_after is not None else {}
        if self.status in (408, 409) and not found:
            found["x-should-retry"] = "false"
        if self.code == SLOW_REQUEST:
            found["connection"] = "close"  # nobody waits for the rest of it
        return found

    def encoded(self) -> bytes:
        """The body as bytes."""
        return json.dumps(self.body(), ensure_ascii=False).encode()


def slow_request(seconds: float) -> ApiError:
    """A client took too long to send its request."""
    return ApiError(408, f"the request was not sent within {seconds:g} s.", code=SLOW_REQUEST)


def of_saguaro(error: SaguaroError, fields: Iterable[str] = ()) -> ApiError:
    """One of our own errors; a message that begins with the name of a field names it as `param`."""
    message = str(error)
    words = re.findall(r"\w+", message)[:1]
    param = words[0] if words and words[0] in set(fields) else None
    code = "context_length_exceeded" if re.search(r"prompt has \d+ tokens", message) else None
    retry = 1 if isinstance(error, CapacityError) else None
    return ApiError(error.http_status, message, param=param, code=code, retry_after=retry)


def of_validation(errors: Sequence[Mapping[str, Any]], fields: Iterable[str]) -> ApiError:
    """What a body violates, as one sentence about its first wrong field.

    Args:
        errors: as pydantic lists them, `loc` beginning with `body`.
        fields: names that the body may have.
    """
    first = errors[0]
    place = tuple(first["loc"][1:])
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is no JSON: {first.get('ctx', {}).get('error', first['msg'])}.")
    if not place:
        return ApiError(400, "the body must be a JSON object, sent with Content-Type: application/json.")
    name = str(place[0])
    if first["type"] == "extra_forbidden":
        return unknown_field(".".join(map(str, place)), fields) if len(place) == 1 else _nested(place)
    if first["type"] == "missing":
        return ApiError(400, f"{'.'.join(map(str, place))} is missing.", param=name, code="missing_required_parameter")
    said = dict.fromkeys(
        str(each["msg"]) for each in errors if each["loc"][1:2] == place[:1] and each["type"] != "extra_forbidden"
    )
    text = " or ".join(message[0].lower() + message[1:] for message in said)
    where = f" (at {'.'.join(map(str, place[1:]))})" if len(place) > 1 and len(said) == 1 else ""
    return ApiError(400, f"{name}{where}: {text}.", param=name, code="invalid_type")


def unknown_field(name: str, fields: Iterable[str]) -> ApiError:
    """A field that this server does not honour."""
    if name in REFUSED:
        message = f"field {name!r} is not supported: {REFUSED[name]}."
    else:
        message = f"unknown field {name!r}{nearest(name, fields) or '.'}"
    return ApiError(400, message, param=name, code="unsupported_parameter")


def _nested(place: Sequence[Any]) -> ApiError:
    path = ".".join(str(part) for part in place)
    return ApiError(400, f"unknown field {path!r}.", param=str(place[0]), code="unsupported_parameter")
