"""One list of what clients do, run by the official clients as they are: the Python package and, where there is a node,
the npm package. The list is data (conformance/list.json); what is expected of its results is checked here for both.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.server.conftest import Server, at_a_port, served

FOLDER = Path(__file__).parent / "conformance"
LIST: list[dict[str, Any]] = json.loads((FOLDER / "list.json").read_text("utf-8"))
NPM_PACKAGE = "openai@7.59.0"
KEY = "sk-test"
Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def guarded(llm) -> Server:
    return served(llm, names=("toy",), api_keys=(KEY,))


@pytest.fixture(scope="module")
def url(guarded: Server) -> Iterator[str]:
    with at_a_port(guarded) as found:
        yield found


# -- the Python client ------------------------------------------------------------------------------------------------


def run(url: str) -> Results:
    """What the list gives."""
    with openai.OpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0, timeout=60) as client:
        return {item["name"]: run_one(item, client) for item in LIST}


def run_one(item: dict[str, Any], client: openai.OpenAI) -> dict[str, Any]:
    """What one item of the list gives."""
    client = client.with_options(api_key=item.get("key", KEY))
    asked = {"model": "toy", **item.get("ask", {})}
    if times := item.get("repeat_prompt"):
        asked["prompt"] = [asked["prompt"][0] * times]
    try:
        if item["do"] == "models":
            return {"ids": [each.id for each in client.models.list()]}
        makers = {"chat": client.chat.completions, "completions": client.completions, "responses": client.responses}
        make: Any = makers[item["do"]].create
        answer = make(**asked, extra_body=item.get("more", {}), stream=bool(item.get("stream")))
        if item.get("stream"):
            with answer:
                return folded(item["do"], answer, item.get("leave"))
        return whole(item["do"], answer)
    except openai.APIStatusError as error:
        names = ("param", "code", "type", "message")
        told = {name: getattr(error, name) for name in names}
        return {"error": {"class": type(error).__name__, "status": error.status_code, **told}}


def whole(what: str, answer: Any) -> dict[str, Any]:
    if what == "responses":
        return {"text": answer.output_text, "status": answer.status, "usage": counts(answer.usage)}
    choices = []
    for each in answer.choices:
        message = each.message if what == "chat" else None
        calls = (message.tool_calls or []) if message else []
        choices.append({
            "index": each.index,
            "finish": each.finish_reason,
            "text": (message.content or "") if message else each.text,
            "calls": [[call.function.name, call.function.arguments] for call in calls],
            "logprobs": entries(what, each.logprobs),
        })  # fmt: skip
    return {"choices": choices, "usage": counts(answer.usage)}


def folded(what: str, stream: Any, leave: int | None) -> dict[str, Any]:
    choices: dict[int, dict[str, Any]] = {}
    usage, response, text = None, None, ""
    for seen, chunk in enumerate(stream, start=1):
        if seen == leave:
            return {"left": True}
        if what == "responses":
            text += chunk.delta if chunk.type == "response.output_text.delta" else ""
            response = getattr(chunk, "response", response)
            continue
        usage = counts(chunk.usage) or usage
        for each in chunk.choices:
            empty = {"index": each.index, "finish": None, "text": "", "calls": [], "logprobs": []}
            add(choices.setdefault(each.index, empty), what, each)
    if what == "responses":
        return {"text": text, "status": response.status, "usage": counts(response.usage)}
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage}


def add(choice: dict[str, Any], what: str, piece: Any) -> None:
    """A piece of a choice."""
    choice["finish"] = piece.finish_reason or choice["finish"]
    choice["text"] += (piece.delta.content if what == "chat" else piece.text) or ""
    for call in (piece.delta.tool_calls or []) if what == "chat" else []:
        while len(choice["calls"]) <= call.index:
            choice["calls"].append(["", ""])
        choice["calls"][call.index][0] += call.function.name or ""
        choice["calls"][call.index][1] += call.function.arguments or ""
    choice["logprobs"] += entries(what, piece.logprobs)


def entries(what: str, logprobs: Any) -> list[list[Any]]:
    """Tokens, and how many likeliest ones are told of each."""
    if logprobs is None:
        return []
    if what == "chat":
        return [[each.token, len(each.top_logprobs)] for each in logprobs.content or []]
    tops = logprobs.top_logprobs or [None] * len(logprobs.tokens)
    return [[token, len(top or {})] for token, top in zip(logprobs.tokens, tops, strict=True)]


def counts(usage: Any) -> list[int] | None:
    if usage is None:
        return None
    chat = hasattr(usage, "prompt_tokens")
    return [usage.prompt_tokens, usage.completion_tokens] if chat else [usage.input_tokens, usage.output_tokens]


# -- what is expected -------------------------------------------------------------------------------------------------


def same_as(found: dict[str, Any], wanted: str, results: Results) -> bool:
    names = ("choices", "text", "status")
    return [found.get(name) for name in names] == [results[wanted].get(name) for name in names]


def call_fits(found: dict[str, Any], wanted: list[Any], results: Results) -> bool:
    [[name, arguments]] = found["choices"][0]["calls"]
    return (name, sorted(json.loads(arguments))) == (wanted[0], sorted(wanted[1]))


def logprobs_fit(found: dict[str, Any], wanted: list[int], results: Results) -> bool:
    tokens, most = wanted
    told = [choice["logprobs"] for choice in found["choices"]]
    return all(len(each) == tokens and all(1 <= tops <= most + 1 for _, tops in each) for each in told)


CHECKS: dict[str, Callable[[dict[str, Any], Any, Results], bool]] = {
    "ids": lambda found, wanted, _: found["ids"] == wanted,
    "finish": lambda found, wanted, _: [choice["finish"] for choice in found["choices"]] == wanted,
    "usage": lambda found, wanted, _: bool(found["usage"]) == wanted,
    "text": lambda found, wanted, _: [choice["text"] for choice in found["choices"]] == [wanted],
    "text_of": lambda found, wanted, results: found["text"] == results[wanted]["choices"][0]["text"],
    "status": lambda found, wanted, _: found["status"] == wanted,
    "differ": lambda found, wanted, _: len({each["text"] for each in found["choices"]}) == len(found["choices"]),
    "json": lambda found, wanted, _: sorted(json.loads(found["choices"][0]["text"])) == sorted(wanted),
    "error": lambda found, wanted, _: wanted.items() <= found["error"].items(),
    "says": lambda found, wanted, _: wanted in found["error"]["message"],
    "left": lambda found, wanted, _: found == {"left": True},
    "same_as": same_as,
    "call": call_fits,
    "logprobs": logprobs_fit,
}


def check(results: Results, server: Server) -> None:
    """Every item of the list gave what it must; nothing runs any more."""
    assert list(results) == [item["name"] for item in LIST]
    for item in LIST:
        found = results[item["name"]]
        for name, wanted in item["expect"].items():
            assert CHECKS[name](found, wanted, results), (item["name"], name, wanted, found)
    deadline = time.monotonic() + 30
    while server.front.gate.inside:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_python_client(guarded: Server, url: str) -> None:
    check(run(url), guarded)


@pytest.mark.slow
def test_the_npm_client(guarded: Server, url: str, tmp_path: Path) -> None:
    results = of_npm(url, tmp_path)
    check(results, guarded)
    ours = run(url)
    for name, found in results.items():
        assert without_message(found) == without_message(ours[name]), name


def of_npm(url: str, folder: Path) -> Results:
    """The list by the npm package. Skipped, with the reason, where it cannot be had."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not installed, so the openai npm client was NOT tried (Debian: nodejs, npm)")
    shutil.copy(FOLDER / "run.mjs", folder)
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), NPM_PACKAGE]
    done = subprocess.run(install, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm could not install {NPM_PACKAGE}, so the client was NOT tried: {done.stderr[-300:]}")
    asked = ["node", str(folder / "run.mjs"), url, KEY, str(FOLDER / "list.json")]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: Results = json.loads(done.stdout)
    return found


def without_message(found: dict[str, Any]) -> dict[str, Any]:
    """Clients put the status in front of a message, each in its own way."""
    if "error" not in found:
        return found
    return {"error": {name: value for name, value in found["error"].items() if name != "message"}}
