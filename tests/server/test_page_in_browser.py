"""The page in a real browser (headless Chromium by Playwright): chat, stop, race, timeline, keys, widths, colours.

Needs the extra `test-browser` and a Chromium on the path (Debian: the package `chromium`); skipped without either.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest
from tests.server.browsing import ALONE, QUESTION, SPECULATING, Visit, runs, start, stop

pytestmark = [pytest.mark.slow, pytest.mark.processes]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    process, address = start(*SPECULATING)
    yield address
    stop(process)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A server without a draft that wants a key."""
    process, address = start(*ALONE, key="sk-secret")
    yield address
    stop(process)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra test-browser)")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on the path")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any, url: str) -> Iterator[Visit]:
    opened = Visit(browser, url)
    yield opened
    opened.close()


def said_of(url: str, messages: list[dict[str, str]], tokens: int) -> str:
    """What the API says to the same request."""
    body = {"messages": messages, "max_tokens": tokens, "seed": 7, "temperature": 0.7}
    found = httpx.post(url + "/v1/chat/completions", json=body, timeout=60).json()
    return found["choices"][0]["message"]["content"]


def test_a_chat_shows_what_the_api_says_and_where_it_came_from(visit: Visit, url: str) -> None:
    visit.wait("#served", "toy")
    visit.chat()
    asked = [{"role": "user", "content": QUESTION}]
    wanted = said_of(url, asked, 40)
    assert visit.of(".message.assistant .said").text_content() == wanted
    shown = visit.tokens()
    assert shown == runs(visit.stream(0))
    assert shown[0][0] == "plain"  # the first token is the target's alone
    assert {"hit", "bonus"} <= {kind for kind, _ in shown}
    assert visit.of("#figure-mode").text_content() == "SSD"
    assert (visit.of("#figure-lookahead").text_content(), visit.of("#figure-budget").text_content()) == ("3", "8")
    assert re.fullmatch(r"\d+ %", visit.of("#figure-hit").text_content())
    assert float(visit.of("#figure-length").text_content()) > 1
    assert float(visit.of("#figure-rate").text_content()) > 0
    facts = visit.of(".message.assistant .facts").text_content()
    assert facts.startswith("40 tokens")
    assert "seed 7" in facts
    assert "max tokens reached" in facts

    visit.chat("And at night?", tokens=16)
    asked += [
        {"role": "assistant", "content": wanted},
        {"role": "user", "content": "And at night?"},
    ]
    assert visit.of(".message.assistant .said").last.text_content() == said_of(url, asked, 16)
    visit.of("#fresh").click()
    assert visit.of(".message").count() == 0
    assert visit.of("#figure-rounds").text_content() == "–"


@pytest.mark.parametrize("way", ["Escape", "button"])
def test_stop_ends_the_request_and_keeps_what_came(visit: Visit, url: str, way: str) -> None:
    visit.ask(QUESTION, tokens=3000)
    visit.page.wait_for_selector(".message.assistant .token")
    assert visit.of("#send").is_disabled()
    if way == "Escape":
        visit.page.keyboard.press("Escape")
    else:
        visit.of("#stop").click()
    visit.wait("#status", "Stopped.")
    facts = visit.of(".message.assistant .facts").text_content()
    assert "not complete" in facts
    assert int(facts.split()[0]) < 3000
    assert visit.of("#stop").is_disabled()
    visit.page.wait_for_function("fetch('state').then(r => r.json()).then(state => state.running === 0)")
    assert 'finished_reason="abort"' in httpx.get(url + "/metrics").text
    visit.chat("And now?", tokens=8)  # the conversation goes on


def test_a_race_compares_the_texts(visit: Visit) -> None:
    visit.of("#race").click()
    visit.wait("#alert", "Write a message first")
    visit.of("#max-tokens").fill("60")
    visit.of("#prompt").fill(QUESTION)
    visit.of("#race").click()
    visit.wait("#race-result", "Texts identical: 60 of 60 tokens.")
    result = visit.of("#race-result").text_content()
    assert re.search(r"SSD \d+\.\d\d s, AR \d+\.\d\d s, \d+\.\d\d × AR\. They ran one after the other", result)
    lanes = visit.of(".lane")
    assert lanes.count() == 2
    texts = [lanes.nth(number).locator(".said").text_content() for number in (0, 1)]
    assert texts[0] == texts[1] != ""
    assert "hit" in {kind for kind, _ in visit.tokens(".lane:nth-of-type(1)")}
    assert {kind for kind, _ in visit.tokens(".lane:nth-of-type(2)")} == {"plain"}
    assert visit.of(".message").count() == 0  # a race is not part of the conversation
    visit.chat(tokens=8)
    visit.of("#race").click()  # with an empty box: the last question
    visit.wait("#race-result", "Texts identical: 8 of 8 tokens.")


def test_a_race_that_is_stopped_compares_nothing(visit: Visit) -> None:
    visit.of("#max-tokens").fill("3000")
    visit.of("#prompt").fill(QUESTION)
    visit.of("#race").click()
    visit.page.wait_for_selector(".lane .token")
    visit.page.keyboard.press("Escape")
    visit.wait("#status", "Stopped.")
    assert visit.of("#race-result").text_content() == ""


def test_the_timeline_shows_rounds(visit: Visit) -> None:
    empty = visit.picture()
    visit.chat(tokens=120)
    full = visit.picture()
    assert full != empty
    label = visit.of("#timeline").get_attribute("aria-label")
    assert re.search(r"\d+ rounds, \d+\.\d\d tokens a round, \d+ % of the look-ups were hits", label)
    inks = visit.page.evaluate(
        """() => {
          const canvas = document.getElementById("timeline");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const found = new Set();
          for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) found.add(data.slice(i, i + 3).join());
          return [...found];
        }"""
    )
    assert "61,111,158" in inks  # a verification
    assert "20,112,63" in inks  # a hit
    visit.of("#back").focus()
    visit.page.keyboard.press("Home")
    assert visit.picture() != full
    visit.page.keyboard.press("End")
    assert visit.picture() == full
    visit.of("#rounds summary").focus()
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_selector("#table tr")
    rows = visit.of("#table tr")
    assert rows.count() == 20
    given = [cell.strip() for cell in rows.last.locator("td").all_text_contents()]
    assert len(given) == 10
    assert given[1].startswith(("hit", "miss"))


def test_everything_is_reached_by_keys(visit: Visit) -> None:
    visit.of(".skip").focus()
    seen = []
    for _ in range(10):
        visit.page.keyboard.press("Tab")
        seen.append(visit.page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert seen == [
        "fresh", "log", "prompt", "send", "race", "temperature", "max-tokens", "seed", "coloured", "SUMMARY",
    ]  # fmt: skip
    visit.of(".skip").focus()
    visit.page.keyboard.press("Enter")
    visit.page.keyboard.type("one")
    visit.page.keyboard.press("Shift+Enter")
    visit.page.keyboard.type("two")
    assert visit.of("#prompt").input_value() == "one\ntwo"
    assert visit.of(".message").count() == 0
    visit.of("#coloured").focus()
    visit.chat(tokens=20)
    token = visit.of(".message.assistant .token.hit").first
    assert token.evaluate("each => getComputedStyle(each).textDecorationStyle") == "solid"
    visit.of("#coloured").focus()
    visit.page.keyboard.press("Space")
    assert token.evaluate("each => getComputedStyle(each).textDecorationLine") == "none"


def test_a_phone_has_nothing_to_scroll_sideways(browser: Any, url: str) -> None:
    visit = Visit(browser, url, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    try:
        visit.chat("w" * 200, tokens=60)
        visit.of("#rounds summary").click()
        visit.of("#race").click()
        visit.wait("#race-result", "Texts identical")
        widths = visit.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths == [360, 360]
        for name in ("#send", "#stop", "#race", "#fresh"):
            assert visit.of(name).bounding_box()["height"] >= 40
    finally:
        visit.close()


CONTRASTS = """() => {
  const luminance = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((each) => Number(each) / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!colour.startsWith("rgba") || !colour.endsWith(" 0)")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = {};
  for (const selector of ["body", ".quiet", ".said", ".facts", "dd", "dt", "button.first", "#fresh", ".token.hit",
    ".token.fallback", ".token.bonus", ".token.plain"]) {
    const element = document.querySelector(`.legend ${selector}`) ?? document.querySelector(selector);
    const pair = [getComputedStyle(element).color, ground(element)].map(luminance).sort((a, b) => b - a);
    found[selector] = (pair[0] + 0.05) / (pair[1] + 0.05);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_are_legible(browser: Any, url: str, scheme: str) -> None:
    visit = Visit(browser, url, color_scheme=scheme)
    try:
        visit.chat(tokens=60)
        ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(250, 249, 245)", "dark": "rgb(18, 22, 20)"}[scheme]
        low = {name: value for name, value in visit.page.evaluate(CONTRASTS).items() if value < 4.5}
        assert not low
        lines = {
            kind: visit.of(f"#origins .{kind}").evaluate("each => getComputedStyle(each).textDecorationStyle")
            for kind in ("hit", "fallback", "bonus")
        }
        assert len(set(lines.values())) == 3  # not by colour alone
        before = visit.picture()
        visit.page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
        visit.page.wait_for_function("old => document.getElementById('timeline').toDataURL() !== old", arg=before)
    finally:
        visit.close()


def test_little_motion_where_that_is_asked_for(browser: Any, url: str) -> None:
    visit = Visit(browser, url, reduced_motion="reduce")
    try:
        assert visit.of("#send").evaluate("each => getComputedStyle(each).transitionDuration") == "0s"
        empty = visit.picture()
        visit.chat(tokens=60)
        assert visit.picture() != empty
    finally:
        visit.close()


def test_errors_are_told_in_words_and_the_question_comes_back(browser: Any, url: str) -> None:
    visit = Visit(browser, url)
    try:
        visit.ask("x" * 5000)
        visit.wait("#alert", "tokens; with max_model_len 4096 at most 4095 fit.")
        assert visit.of("#prompt").input_value() == "x" * 5000
        assert visit.of(".message").count() == 0
        visit.context.set_offline(True)
        visit.ask("hi")
        visit.wait("#alert", "The server cannot be reached.")
        visit.context.set_offline(False)
        visit.chat("hi", tokens=8)
        assert visit.of("#alert").is_hidden()
    finally:
        visit.close(expected="status of 400|INTERNET_DISCONNECTED")


def test_a_key_is_asked_for_and_kept_in_memory_only(browser: Any, guarded: str) -> None:
    visit = Visit(browser, guarded)
    try:
        visit.page.wait_for_selector("#key-dialog[open]")
        visit.wait("#key-alert", "the API key is missing or wrong")
        visit.of("#key").fill("sk-wrong")
        visit.of("#key").press("Enter")
        visit.page.wait_for_selector("#key-dialog[open]")
        visit.of("#key").fill("sk-secret")
        visit.of("#key").press("Enter")
        visit.wait("#served", "toy, no draft")
        assert not visit.of("#key-dialog").is_visible()
        visit.chat(tokens=20)
        assert {kind for kind, _ in visit.tokens()} == {"plain"}
        assert visit.of("#figure-mode").text_content() == "AR"
        visit.of("#race").click()
        visit.wait("#alert", "This server runs AR alone")
        kept = visit.page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
        assert kept == [0, 0, ""]
        assert "sk-" not in visit.page.content()
    finally:
        visit.close(expected="status of 401")
