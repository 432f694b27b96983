"""The page at `/` without a browser: what is sent, under which headers, and that nothing comes from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from tests.server.conftest import served

from saguaro.server.endpoints.page import FOLDER, TYPES, read_assets
from saguaro.server.wire.responses import EngineState

KEY = {"authorization": "Bearer sk-secret"}
IMPORT = re.compile(r"""\bfrom\s+["']([^"']+)["']|\bimport\s*\(?\s*["']([^"']+)["']""")
ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.IGNORECASE)
NAMESPACE = "http://www.w3.org/2000/svg"  # a name that SVG files must bear; nobody asks there


class Page(HTMLParser):
    """What a page names, and what stands in line in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.named: list[str] = []
        self.inline: list[str] = []
        self.ids: list[str] = []
        self.labels: set[str] = set()
        self.fields: list[str] = []
        self._inside = ""
        self._labels = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.named += [given[name] for name in ("src", "href") if name in given and not given[name].startswith("#")]
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        self.ids += [given["id"]] if "id" in given else []
        self._inside = tag
        if tag == "label":
            self._labels += 1
            self.labels.add(given.get("for", ""))
        if tag in ("input", "textarea", "select") and not self._labels:
            self.fields.append(given["id"])

    def handle_endtag(self, tag):
        self._inside = ""
        self._labels -= tag == "label"

    def handle_data(self, data):
        if self._inside in ("script", "style") and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def assets():
    return read_assets()


@pytest.fixture(scope="module")
def index(assets):
    return Page(assets["index.html"].body.decode())


def test_every_file_of_the_folder_is_sent_with_its_type(server, assets):
    assert set(assets) == {path.name for path in FOLDER.iterdir() if path.is_file()}
    for name, asset in assets.items():
        found = server.get(f"/page/{name}")
        assert (found.status_code, found.content) == (200, asset.body)
        assert found.headers["content-type"] == TYPES["." + name.rsplit(".", 1)[1]]
    front = server.get("/")
    assert (front.status_code, front.content) == (200, assets["index.html"].body)
    assert front.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/page/app.js"])
def test_headers_forbid_other_hosts_and_let_browsers_keep_the_file(server, path):
    found = server.get(path)
    rules = dict(rule.strip().split(" ", 1) for rule in found.headers["content-security-policy"].split(";"))
    assert rules.pop("default-src") == "'self'"
    assert set(rules.values()) == {"'none'"}
    assert {"frame-ancestors", "base-uri", "form-action", "object-src"} == set(rules)
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert found.headers["cache-control"] == "no-cache"
    tag = found.headers["etag"]
    for known in (tag, f'W/{tag}, "other"', "*"):
        again = server.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert server.get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_what_the_page_names_is_there(index, assets):
    assert index.named
    assert {name.removeprefix("page/") for name in index.named} <= set(assets)
    assert all(name.startswith("page/") for name in index.named)  # relative: a proxy may put a prefix in front
    for name, asset in assets.items():
        if name.endswith(".js"):
            for found in IMPORT.findall(asset.body.decode()):
                [path] = filter(None, found)
                assert path.startswith("./")
                assert path.removeprefix("./") in assets


def test_scripts_name_elements_that_are_there(index, assets):
    assert len(index.ids) == len(set(index.ids))
    named = set(re.findall(r'\$\("([a-z-]+)"\)', assets["app.js"].body.decode()))
    assert named
    assert named <= set(index.ids)


def test_every_field_has_a_label(index):
    assert set(index.fields) <= index.labels


def test_nothing_is_in_line(index):
    assert not index.inline


def test_no_file_names_another_host(assets):
    for name, asset in assets.items():
        text = asset.body.decode().replace(NAMESPACE, "")
        assert not ADDRESS.findall(text), name
        assert "@import" not in text
        assert "url(" not in text


@pytest.mark.parametrize("path", ["/page/app.py", "/page/", "/page/..%2fapp.py", "/page/%2e%2e/app.py", "/page/a/b"])
def test_nothing_else_is_sent(server, path):
    assert server.get(path).status_code == 404


def test_a_near_name_is_told(server):
    found = server.get("/page/apps.js")
    assert (found.status_code, "did you mean 'app.js'" in found.json()["error"]["message"]) == (404, True)


def test_with_a_key_the_page_is_open_and_the_engine_is_not(llm):
    guarded = served(llm, api_keys=("sk-secret",))
    for path in ("/", "/page/app.js", "/page/style.css"):
        assert guarded.get(path).status_code == 200
    assert guarded.get("/page/none.js").status_code == 404
    for path in ("/state", "/pages", "/page"):
        assert guarded.get(path).status_code == 401
    assert guarded.get("/state", headers=KEY).status_code == 200


def test_visits_are_counted_under_one_path(llm):
    server = served(llm)
    for path in ("/", "/page/app.js", "/page/none.js"):
        server.get(path)
    text = server.get("/metrics").text
    assert 'saguaro:http_requests_total{path="/",status="200"} 2.0' in text
    assert 'saguaro:http_requests_total{path="/",status="404"} 1.0' in text


def test_the_state(llm_of_mode):
    found = served(llm_of_mode).get("/state").json()
    state = EngineState.model_validate(found)
    assert state.mode == state.gear == llm_of_mode.mode
    expected = {"ar": (None, None, None), "ssd": (3, 6, "toy:llama?seed=1&vocab=300&layers=2&noise=0.1")}
    assert (state.lookahead, state.budget, state.draft_name) == expected[state.mode]
    assert (state.draft is not None) == (state.mode == "ssd")
    assert (state.model, state.context) == ("toy", 256)


def test_the_state_tells_no_folder(llm, monkeypatch):
    server = served(llm)

    async def statistics():
        found = await llm.statistics()
        return {**found, "plan": {**found["plan"], "draft": "/some/where/draft.gguf"}}

    monkeypatch.setattr(server.front.watch, "_ask", statistics)
    assert server.get("/state").json()["draft_name"] == "draft.gguf"


def test_an_engine_that_says_nothing(llm, monkeypatch):
    server = served(llm)

    async def silent():
        return None

    monkeypatch.setattr(server.front.watch, "statistics", silent)
    found = server.get("/state")
    assert (found.status_code, found.json()["error"]["code"]) == (503, "engine_silent")


def test_a_wheel_has_the_page(root):
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling builds wheels; it is not installed here")
    packed = {file.distribution_path for file in wheel.WheelBuilder(str(root)).recurse_included_files()}
    assert {f"saguaro/server/page/{name}" for name in read_assets()} <= packed
