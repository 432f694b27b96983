"""The draft's time: busy, idle while it has rows, and what its passes were for."""

from types import SimpleNamespace
from typing import Any

import pytest

from saguaro.engine.activity import Activity, kind_of, what
from saguaro.engine.trace import Ring
from saguaro.execution.batch import Span
from saguaro.protocol.messages import Decided, Release


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def work(*, request: int = 1, start: int = 10, tokens: int = 1, branch: tuple[int, int] | None = None) -> Any:
    row = SimpleNamespace(request=request, admit=SimpleNamespace(tokens=(0,) * 8))
    opened = None if branch is None else SimpleNamespace(accepted=branch[0], bonus=branch[1])
    return SimpleNamespace(row=row, branch=opened, span=Span([5] * tokens, start, [0], [0] * tokens))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_seconds_busy_and_idle(clock: Clock) -> None:
    activity = Activity(clock=clock)
    for clock.now, has_rows in ((0.0, False), (1.0, True), (1.5, True)):  # no rows before 1
        activity.rested(has_rows)
    assert activity.summary()["idle_seconds"] == 0.5
    clock.now = 3.0
    assert activity.stepped(2.0, [work(), work(branch=(0, 3))]) == 1.0
    clock.now = 4.0
    activity.rested(True)
    clock.now = 4.25
    activity.rested(False)
    clock.now = 9.0
    activity.rested(False)
    activity.stepped(9.0, [work(tokens=3)], given_up=True)
    assert activity.summary() == {
        "steps": 2, "steps_given_up": 1, "rows_run": 5, "busy_seconds": 1.0, "idle_seconds": 1.25,
    }  # fmt: skip


def test_the_trace_has_the_same_spans(clock: Clock) -> None:
    ring = Ring("draft", 1)
    activity = Activity(ring, clock)
    activity.rested(True)
    clock.now = 0.5
    activity.heard(0.5, [])
    clock.now = 0.75
    activity.heard(0.5, [Decided(7, 3, 10, 1, 9, "hit", False, 2, (4, 5)), Release(6)])
    clock.now = 2.0
    activity.stepped(1.0, [work(branch=(2, 4))])
    events = ring.take().events
    assert [(e.name, e.start, e.seconds) for e in events] == [
        ("news", 0.5, 0.25), ("outcome", 0.5, 0.0), ("idle", 0.0, 1.0), ("branches", 1.0, 1.0),
    ]  # fmt: skip
    assert events[0].about == {"messages": ["Decided", "Release"]}
    assert events[3].about == {"rows": 1, "tails": {}, "branches": [(1, 2, 4)]}


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([work(start=0, tokens=8)], "prefill"),
        ([work(start=4, tokens=4), work(request=2, branch=(0, 3))], "prefill"),
        ([work(start=8)], "tail"),
        ([work(branch=(0, 3)), work(branch=(1, 4))], "branches"),
        ([work(start=9, tokens=2), work(branch=(1, 4))], "tail + branches"),
    ],
)
def test_what_a_pass_is_for(rows: Any, kind: str) -> None:
    assert kind_of(rows) == kind
    assert what(rows)["rows"] == sum(len(w.span.tokens) for w in rows)
