"""Our own clients of a real server over a socket: the terminal chat, the live figures, the Grafana dashboard."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.chatting import talk
from tests.server.conftest import Server, at_a_port, served

from saguaro.async_llm import AsyncLLM
from saguaro.cli.chat_server import ServerBackend
from saguaro.cli.main import main
from saguaro.cli.remote import Remote
from saguaro.errors import RequestRefused

FIELDS = {"max_tokens": 24, "seed": 5, "ignore_eos": True}


@pytest.fixture(scope="module")
def url(llm: AsyncLLM) -> Iterator[str]:
    """A server of the session's engine at a free port."""
    with at_a_port(served(llm)) as found:
        yield found


def test_chat_is_what_the_server_says(url: str, server: Server) -> None:
    backend = ServerBackend(Remote(url), FIELDS)
    shown, done = talk(backend, "hi", "/stats", "/mode", "/mode ar", "/retry")
    assert done
    asked = {"messages": [{"role": "user", "content": "hi"}], **FIELDS}
    for text, seed in zip(shown.answers, (5, 6), strict=True):
        answer = server.post("/v1/chat/completions", {**asked, "seed": seed}).json()
        assert text == answer["choices"][0]["message"]["content"]
    assert backend.model == "toy"
    assert shown.notes[0].startswith("last answer: ")
    assert "hit rate" in shown.notes[0]
    assert shown.notes[1] == "mode: ssd, the server's own."
    assert "the server decides how it decodes" in shown.notes[2]


def test_a_refused_request_is_told(url: str) -> None:
    backend = ServerBackend(Remote(url), {"max_tokens": 0})
    with pytest.raises(RequestRefused, match="max_tokens"):
        list(backend.answer([{"role": "user", "content": "hi"}], attempt=0))


def test_leaving_an_answer_ends_it(url: str, llm: AsyncLLM, server: Server) -> None:
    parts = ServerBackend(Remote(url), {"max_tokens": 200, "ignore_eos": True}).answer(
        [{"role": "user", "content": "hi"}], attempt=0
    )
    next(parts)
    parts.close()
    end = time.monotonic() + 20
    while server.run(lambda client: llm.statistics())["running"]:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_figures_for_a_script(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    list(ServerBackend(Remote(url), FIELDS).answer([{"role": "user", "content": "hi"}], attempt=0))
    assert main(["top", "--url", url, "--once", "--json", "--interval", "0.01"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["mode"], found["running"], found["draft"]) == ("alive", "ssd", 0, "up")
    assert set(found["kv_use"]) == {"target", "draft"}
    whole = found["since_start"]
    assert 0 < whole["hit_rate"] <= 1
    assert 0 < whole["acceptance_rate"] <= 1
    assert whole["tokens_a_round"] > 1
    assert 0 < whole["time_to_first_token_seconds"]["p50"] <= whole["time_to_first_token_seconds"]["p99"]
    assert found["recent"]["seconds"] >= 0.01
    assert main(["top", "--url", url, "--once", "--interval", "0.01"]) == 0
    assert "alive" in capsys.readouterr().out


# -- docs/grafana/saguaro.json --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dashboard(root: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "docs/grafana/saguaro.json").read_text("utf-8"))
    return found


def expressions(dashboard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every expression with its legend."""
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"], ""


def test_the_dashboard_asks_for_what_is_exported(dashboard: dict[str, Any], server: Server) -> None:
    server.post("/v1/completions", {"prompt": "abc", "max_tokens": 4})
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(server.get("/metrics").text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    asked = list(expressions(dashboard))
    assert len(asked) > 20
    for expression, legend in asked:
        names = set(re.findall(r"saguaro:\w+", expression))
        assert names
        assert names <= set(labels), expression
        grouped = {label for each in re.findall(r"by \((\w+)\)", expression) for label in each.split(",")}
        used = grouped | set(re.findall(r"\{\{(\w+)\}\}", legend))
        assert all(used <= labels[name] for name in names), (expression, legend)


def test_the_dashboard_is_whole(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))  # none lies over another
    assert all(x < 24 for x, _ in cells)
    for panel in panels:
        assert panel["description"]
        assert [target["refId"] for target in panel["targets"]] == list("ABCD")[: len(panel["targets"])]
    for expression, _ in expressions(dashboard):
        assert expression.count("(") == expression.count(")")
        assert expression.count("{") == expression.count("}")
