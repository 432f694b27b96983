"""Error bodies: the form of the OpenAI API, statuses, and what clients should do next."""

import pytest

from saguaro.errors import CapacityError, ConfigError, ProtocolError, RequestRefused, SaguaroError, WorkerDied
from saguaro.server.errors import ApiError, of_saguaro
from saguaro.server.wire.responses import ErrorBody


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (RequestRefused("top_p must be above 0."), 400, "invalid_request_error"),
        (ConfigError("no."), 400, "invalid_request_error"),
        (CapacityError("no room."), 429, "rate_limit_error"),
        (WorkerDied("gone."), 503, "service_unavailable_error"),
        (ProtocolError("odd."), 500, "server_error"),
        (SaguaroError("closed."), 500, "server_error"),
    ],
)
def test_our_errors(error, status, kind):
    found = of_saguaro(error, {"top_p"})
    assert found.status == status
    body = ErrorBody.model_validate(found.body())
    assert (body.error.type, body.error.message) == (kind, str(error))
    assert body.error.param == ("top_p" if "top_p" in str(error) else None)


def test_a_prompt_that_is_too_long_has_the_code_that_clients_know():
    error = of_saguaro(RequestRefused("the prompt has 300 tokens; with max_model_len 256 at most 255 fit."))
    assert (error.status, error.code) == (400, "context_length_exceeded")


def test_headers():
    assert ApiError(429, "x", retry_after=3).headers() == {"retry-after": "3"}
    assert ApiError(408, "x").headers() == {"x-should-retry": "false"}
    assert ApiError(400, "x").headers() == {}
