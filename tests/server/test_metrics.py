"""The page for Prometheus: every name is in the docs, figures are those of the engine, nothing can fill it up."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.conftest import served

from saguaro.request import MISS_REASONS, RequestMetrics
from saguaro.server.health import Health
from saguaro.server.metrics import Metrics

PAGE = "/metrics"


def samples(text: str) -> dict[tuple[str, str], float]:
    """Values by name and label."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name.removeprefix("saguaro:"), ",".join(sample.labels.values())] = sample.value
    return found


@pytest.fixture
def asked(llm_of_mode):
    """A server that has answered something."""
    server = served(llm_of_mode)
    answer = server.post("/v1/completions", {"prompt": "abcabcabc", "max_tokens": 30, "seed": 1, "ignore_eos": True})
    return server, answer.json()


def test_docs_name_every_metric_and_no_other(asked, root):
    server, _ = asked
    text = (root / "docs/serving.md").read_text("utf-8").split("## Metrics")[1]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {re.sub(r"\{.*\}", "", name) for row in rows for name in re.findall(r"`([^`]+)`", row)}
    page = server.get(PAGE).text
    served_names = set()
    for family in text_string_to_metric_families(page):
        assert family.name.startswith("saguaro:")
        if not family.name.endswith("_created"):
            suffix = "_total" if family.type == "counter" else ""
            served_names.add(family.name.removeprefix("saguaro:") + suffix)
    assert served_names <= named
    only_beside_a_draft = {name for name in named if name.startswith("draft_") and name != "draft_tokens_total"}
    assert named - served_names <= only_beside_a_draft - {"draft_restarts_total"}


def test_figures_are_the_engines(asked):
    server, answer = asked
    totals = server.run(lambda client: server.front.llm.statistics())["totals"]
    server.front.watch._known = None
    found = samples(server.get(PAGE).text)
    assert found["generation_tokens_total", ""] == answer["usage"]["completion_tokens"] == 30
    assert found["request_success_total", "length"] == 1
    assert found["rounds_total", ""] == totals["rounds"] > 0
    assert found["accepted_tokens_total", ""] == totals["accepted"]
    assert found["speculation_hits_total", ""] + found["speculation_misses_total", ""] == (
        totals["rounds"] if server.front.llm.mode == "ssd" else 0
    )
    reasons = sum(found["speculation_miss_reasons_total", reason] for reason in MISS_REASONS)
    assert reasons == found["speculation_misses_total", ""]
    accepted = [value for (name, _), value in found.items() if name == "accepted_tokens_per_position_total"]
    assert sum(accepted) == found["accepted_tokens_total", ""]
    assert found["num_requests_running", ""] == found["num_requests_waiting", ""] == 0
    assert found["time_to_first_token_seconds_count", ""] == 1
    assert found["inter_token_latency_seconds_count", ""] == 29
    assert (("draft_up", "") in found) == (server.front.llm.mode == "ssd")


def test_a_dead_engine_leaves_its_state():
    found = samples(Metrics().text(Health("dead", "gone"), None).decode())
    assert [found["engine_state", state] for state in ("alive", "degraded", "dead", "stopping")] == [0, 0, 1, 0]
    assert ("rounds_total", "") not in found


def test_paths_that_do_not_exist_are_one_name(server):
    for number in range(3):
        server.get(f"/no/such/{number}")
    found = samples(server.get(PAGE).text)
    assert found["http_requests_total", "other,404"] == 3
    assert not [labels for _, labels in found if "such" in labels]


def test_a_choice_without_tokens_has_no_first_token():
    metrics = Metrics()
    metrics.ended(RequestMetrics(), "abort", prompt=3, output=0, seconds=1.0)
    found = samples(metrics.text(Health("alive"), None).decode())
    assert found["time_to_first_token_seconds_count", ""] == 0
    assert found["request_success_total", "abort"] == 1
