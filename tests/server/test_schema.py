"""Whatever fits the OpenAPI schema, and whatever does not, gets an answer that the schema tells of, and never a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.server.conftest import at_a_port, served

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [
    ("/v1/chat/completions", "POST"),
    ("/v1/completions", "POST"),
    ("/v1/responses", "POST"),
    ("/tokenize", "POST"),
    ("/detokenize", "POST"),
    ("/v1/models", "GET"),
    ("/v1/models/{name}", "GET"),
    ("/health", "GET"),
    ("/state", "GET"),
    ("/metrics", "GET"),
    ("/", "GET"),
    ("/page/{name}", "GET"),
]


@pytest.fixture(scope="module")
def schema(llm) -> Iterator[Any]:
    with at_a_port(served(llm)) as url:
        yield schemathesis.openapi.from_url(url + "/openapi.json")


def ask(schema: Any, path: str, method: str, *, examples: int) -> None:
    """So many requests that hypothesis makes of the schema."""

    @given(case=schema[path][method].as_strategy())
    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def run(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    run()


def test_every_operation_is_asked(schema: Any) -> None:
    found = {(path, method.upper()) for path in schema for method in schema[path]}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_some_requests(schema: Any, path: str, method: str) -> None:
    ask(schema, path, method, examples=4)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_many_requests(schema: Any, path: str, method: str) -> None:
    ask(schema, path, method, examples=200)
