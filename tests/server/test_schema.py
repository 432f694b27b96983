"""Whatever fits the OpenAPI schema gets an answer that the schema tells of, and never a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.server.conftest import at_a_port, served

pytestmark = pytest.mark.slow  # loading schemathesis alone takes seconds
EXAMPLES = 200
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
    import schemathesis

    with at_a_port(served(llm)) as url:
        yield schemathesis.openapi.from_url(url + "/openapi.json")


def test_every_operation_is_asked(schema: Any) -> None:
    found = {(path, method.upper()) for path in schema for method in schema[path]}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_many_requests(schema: Any, path: str, method: str) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]

    @given(case=schema[path][method].as_strategy())
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def run(case: Any) -> None:
        case.call_and_validate(checks=wanted)

    run()
