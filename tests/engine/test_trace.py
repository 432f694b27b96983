"""The ring, and the picture: valid for Chrome's format whatever was lost."""

import json

import pytest

from saguaro.engine.trace import ProcessTrace, Ring, chrome_trace, shares


def two() -> list[ProcessTrace]:
    """A target that looks an outcome up at 1.2 s and a draft that hears of it at 1.3 s."""
    target, draft = Ring("target", 11), Ring("draft", 12)
    target.span("verify", 1.0, 1.2, {"requests": [5]})
    target.span("look-up", 1.2, 1.25)
    target.sent(1.21, 5, 3)
    target.sent(1.22, 6, 3)  # nobody hears of this
    target.instant("hit", 1.25, {"k": 2})
    draft.span("branches", 0.9, 1.3)
    draft.span("news", 1.3, 1.31)
    draft.heard(1.3, 5, 3)
    draft.span("idle", 1.4, 1.9)
    return [target.take(), draft.take()]


def test_a_ring_keeps_the_newest_and_counts_the_rest() -> None:
    ring = Ring("target", 1, size=3)
    for number in range(5):
        ring.span(str(number), float(number), number + 0.5)
    trace = ring.take()
    assert [event.name for event in trace.events] == ["2", "3", "4"]
    assert trace.lost == 2
    assert ring.take() == ProcessTrace("target", 1, (), 0)


def test_one_clock_in_microseconds_since_the_first_event() -> None:
    events = chrome_trace(two())["traceEvents"]
    spans = {event["name"]: (event["pid"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"}
    assert spans == {
        "verify": (1, pytest.approx(1e5), pytest.approx(2e5)), "look-up": (1, pytest.approx(3e5), pytest.approx(5e4)),
        "branches": (2, 0.0, pytest.approx(4e5)), "news": (2, pytest.approx(4e5), pytest.approx(1e4)),
        "idle": (2, pytest.approx(5e5), pytest.approx(5e5)),
    }  # fmt: skip
    [mark] = [event for event in events if event["ph"] == "i"]
    assert (mark["name"], mark["s"], mark["args"]) == ("hit", "t", {"k": 2})


def test_processes_have_names() -> None:
    events = chrome_trace(two())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {1: "target (pid 11)", 2: "draft (pid 12)"}
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} == {"target", "draft"}


def test_arrows_have_two_ends_within_spans() -> None:
    events = chrome_trace(two())["traceEvents"]
    [start] = [event for event in events if event["ph"] == "s"]
    [end] = [event for event in events if event["ph"] == "f"]
    assert (start["id"], start["cat"], start["name"]) == (end["id"], end["cat"], end["name"])
    assert (start["pid"], end["pid"], end["bp"]) == (1, 2, "e")
    for arrow in (start, end):
        assert any(
            event["ph"] == "X" and event["pid"] == arrow["pid"]
            and event["ts"] <= arrow["ts"] <= event["ts"] + event["dur"]
            for event in events
        )  # fmt: skip


def test_every_event_has_what_the_format_asks_for() -> None:
    drawn = json.loads(json.dumps(chrome_trace(two()), allow_nan=False))
    assert drawn["displayTimeUnit"] == "ms"
    needed = {"X": {"ts", "dur", "tid"}, "i": {"ts", "s", "tid"}, "M": {"args"}, "s": {"ts", "id", "cat", "tid"},
              "f": {"ts", "id", "cat", "bp", "tid"}}  # fmt: skip
    for event in drawn["traceEvents"]:
        assert needed[event["ph"]] | {"name", "pid"} <= set(event)
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
    times = [event["ts"] for event in drawn["traceEvents"] if event["pid"] == 1 and "ts" in event]
    assert times == sorted(times)


def test_nothing_at_all() -> None:
    assert chrome_trace([])["traceEvents"] == []
    assert shares([ProcessTrace("target", 1, ())])["target"] == {
        "seconds": 0.0, "kinds": {}, "rest": 0.0, "lost_events": 0,
    }  # fmt: skip


def test_shares_and_the_rest_add_up() -> None:
    found = shares(two())
    assert found["target"]["seconds"] == pytest.approx(0.25)
    assert found["target"]["kinds"]["verify"] == {
        "seconds": pytest.approx(0.2), "share": pytest.approx(0.8), "count": 1,
    }  # fmt: skip
    for process in found.values():
        assert sum(kind["share"] for kind in process["kinds"].values()) + process["rest"] == pytest.approx(1.0)
    assert found["draft"]["rest"] == pytest.approx(0.09)
    assert list(found["draft"]["kinds"]) == ["idle", "branches", "news"]
