"""A server for a browser, and a visit to its page by Playwright."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import Any

TOY = "toy:llama?seed=1&vocab=300&layers=6&hidden=256&heads=8&ffn=512&eos=0"
SPECULATING = (
    "--target", TOY, "--draft", TOY + "&noise=0.05", "--mode", "ssd", "--lookahead", "3", "--budget", "8",
    "--dtype", "float32", "--max-model-len", "4096", "--channel", "loopback",
)  # fmt: skip
ALONE = ("--target", TOY, "--mode", "ar", "--dtype", "float32", "--max-model-len", "4096", "--channel", "loopback")
PATIENCE = 60_000  # milliseconds; nothing here is timed
QUESTION = "Why is the sky blue?"
RECORD = """(() => {
  const ask = window.fetch;
  window.heard = [];
  window.fetch = async (...all) => {
    const response = await ask(...all);
    if (String(all[0]).includes("chat/completions")) {
      response.clone().text().then((text) => window.heard.push(text), () => {});
    }
    return response;
  };
})()"""
"""Keeps the streams that the page reads, so that what it shows can be compared with them."""


def start(*more: str, key: str = "") -> tuple[subprocess.Popen, str]:
    """A server, and where it is."""
    process = subprocess.Popen(
        [sys.executable, "-m", "saguaro", "serve", "--port", "0", "--served-model-name", "toy", *more],
        stdout=subprocess.PIPE, text=True, env={**os.environ, **({"SAGUARO_API_KEY": key} if key else {})},
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if " at http" in line:
            return process, line.split(" at ")[1].split()[0]
    raise AssertionError("the server did not start")


def stop(process: subprocess.Popen) -> None:
    """End it in order."""
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


class Visit:
    """A page in a context of its own; what it asked for, and what went wrong."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.context.add_init_script(RECORD)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._heard)
        self.address = address
        self.page.goto(address)

    def _heard(self, said: Any) -> None:
        if said.type in ("error", "warning"):
            self.wrong.append(said.text)

    def of(self, selector: str) -> Any:
        return self.page.locator(selector)

    def ask(self, text: str, *, tokens: int = 40, seed: int = 7) -> None:
        """Write a question and press Enter."""
        self.of("#max-tokens").fill(str(tokens))
        self.of("#seed").fill(str(seed))
        self.of("#prompt").fill(text)
        self.of("#prompt").press("Enter")

    def wait(self, selector: str, words: str) -> None:
        """Until an element says something."""
        self.page.wait_for_function(
            "([selector, words]) => document.querySelector(selector).textContent.includes(words)", arg=[selector, words]
        )

    def chat(self, text: str = QUESTION, **options: int) -> None:
        """A question and its whole answer."""
        count = self.of(".message.assistant").count()
        self.ask(text, **options)
        self.page.wait_for_function(
            "count => document.querySelectorAll('.message.assistant').length > count", arg=count
        )
        self.wait("#status", "The answer is complete.")

    def picture(self) -> str:
        """The timeline."""
        return self.page.evaluate("document.getElementById('timeline').toDataURL()")

    def tokens(self, within: str = ".message.assistant") -> list[list[str]]:
        """Origin and text of what is marked."""
        return self.of(f"{within} .token").evaluate_all("all => all.map(each => [each.classList[1], each.textContent])")

    def stream(self, number: int) -> str:
        """A whole stream that the page has read."""
        self.page.wait_for_function("number => window.heard.length > number", arg=number)
        return self.page.evaluate("number => window.heard[number]", number)

    def close(self, *, expected: str = "") -> None:
        """Nothing was asked of another host, and nothing was complained of but what matches `expected`."""
        self.context.close()
        assert all(each.startswith(self.address + "/") for each in self.asked), self.asked
        assert not [each for each in self.wrong if not (expected and re.search(expected, each))]


def runs(stream: str) -> list[list[str]]:
    """Neighbours of one origin in a stream of events, as the page is to show them."""
    found: list[list[str]] = []
    for line in stream.splitlines():
        if not line.startswith("data: {"):
            continue
        for each in json.loads(line[6:])["choices"][0].get("saguaro", {"rounds": []})["rounds"]:
            for token in each["tokens"]:
                alone = token["origin"] == "prefill" or each["proposed"] == 0
                kind = "plain" if alone else token["origin"]
                if token["text"] and found and found[-1][0] == kind:
                    found[-1][1] += token["text"]
                elif token["text"]:
                    found.append([kind, token["text"]])
    return found
