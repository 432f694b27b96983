"""What every request passes: ids, keys, sizes, other origins, log lines."""

from __future__ import annotations

import logging

import pytest
from tests.server.conftest import served

from saguaro.server.wire.responses import ErrorBody

KEY = {"authorization": "Bearer sk-secret"}


@pytest.fixture
def guarded(llm):
    return served(llm, api_keys=("sk-secret",), max_body=200, origins=("https://page.example",))


def test_keys(guarded):
    refused = guarded.get("/v1/models")
    assert refused.status_code == 401
    assert ErrorBody.model_validate(refused.json()).error.code == "invalid_api_key"
    assert guarded.get("/v1/models", headers={"authorization": "Bearer sk-other"}).status_code == 401
    assert guarded.get("/v1/models", headers=KEY).status_code == 200
    assert guarded.get("/metrics").status_code == 401
    assert guarded.get("/health").status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_the_body_is_bounded(guarded, chunked):
    body = b'{"prompt": "' + b"x" * 300 + b'"}'

    async def parts():
        yield body[:150]
        yield body[150:]

    async def scene(client):
        headers = {**KEY, "content-type": "application/json"}
        return await client.post("/v1/completions", content=parts() if chunked else body, headers=headers)

    found = guarded.run(scene)
    assert (found.status_code, found.json()["error"]["code"]) == (413, "body_too_large")


def test_request_ids(server):
    assert server.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    for bad in ("a b", "x" * 200, 'a"\\n'):
        given = server.get("/health", headers={"x-request-id": bad}).headers["x-request-id"]
        assert given != bad
        assert len(given) == 24


def test_a_log_line_has_the_id_and_no_secret(guarded, caplog):
    with caplog.at_level(logging.INFO, logger="saguaro.server"):
        guarded.post("/v1/completions", {"prompt": "private"}, headers={**KEY, "x-request-id": "abc-1"})
        guarded.get("/v1/models", headers={"authorization": "Bearer sk-wrong"})
    lines = [record.getMessage() for record in caplog.records if record.name == "saguaro.server.doorway"]
    assert lines[0].startswith("abc-1 POST '/v1/completions' 200 ")
    assert not any(secret in line for line in lines for secret in ("sk-secret", "sk-wrong", "private"))


def test_pages_of_other_origins(guarded, server):
    asks = {"origin": "https://page.example", "access-control-request-method": "POST"}

    def asked(server, headers):
        return server.run(lambda client: client.options("/v1/completions", headers=headers)).headers

    assert asked(guarded, asks)["access-control-allow-origin"] == "https://page.example"
    assert "access-control-allow-origin" not in asked(guarded, {**asks, "origin": "https://other.example"})
    assert "access-control-allow-origin" not in asked(server, asks)


def test_what_nobody_expected_is_500_and_says_nothing_of_the_inside(server, monkeypatch, caplog):
    def fails(*_, **__):
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(server.front, "check_model", fails)
    found = server.post("/v1/completions", {"prompt": "a"})
    assert found.status_code == 500
    assert "inside" not in found.text
    assert "inside" in caplog.text
