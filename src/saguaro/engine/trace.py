"""What each process did when: a bounded ring of events in the worker, and one picture of all processes on one clock.

    worker  ── Ring.take ──▶  ProcessTrace  ──▶  parent: chrome_trace → JSON for ui.perfetto.dev or chrome://tracing

All processes of a machine share the monotonic clock, so nothing has to be aligned. An outcome is an arrow from the
look-up of the target to the draft that reads it. A worker without a ring pays for one comparison. The functions are
pure; the only clock is that of the caller. Must not know: workers, engines. Tests: tests/engine/test_trace.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

RING_EVENTS = 1 << 16
"""The newest events that a worker keeps; at some tens a second and row that is many minutes."""
SPAN, INSTANT, SENT, HEARD = "X", "i", "s", "f"
ROUND_BITS = 20


class Event(NamedTuple):
    """Something that happened at `start` (seconds of the monotonic clock) and took `seconds`.

    `phase` is that of Chrome's format: a span, an instant, or an end of the arrow number `arrow`.
    """

    phase: str
    name: str
    start: float
    seconds: float = 0.0
    about: Mapping[str, Any] | None = None
    arrow: int = 0


@dataclass(frozen=True)
class ProcessTrace:
    """The events of one process, oldest first. `lost` older ones had no room."""

    name: str
    pid: int
    events: tuple[Event, ...]
    lost: int = 0


class Ring:
    """The newest events of a worker."""

    def __init__(self, name: str, pid: int, size: int = RING_EVENTS) -> None:
        self._name, self._pid = name, pid
        self._events: deque[Event] = deque(maxlen=size)
        self._added = 0

    def span(self, name: str, start: float, end: float, about: Mapping[str, Any] | None = None) -> None:
        """Something that lasted from `start` to `end`."""
        self._add(Event(SPAN, name, start, max(0.0, end - start), about))

    def instant(self, name: str, time: float, about: Mapping[str, Any] | None = None) -> None:
        """Something that took no time."""
        self._add(Event(INSTANT, name, time, 0.0, about))

    def sent(self, time: float, request: int, round_: int) -> None:
        """The outcome of a round left here, within the span that holds `time`."""
        self._add(Event(SENT, "outcome", time, arrow=_arrow(request, round_)))

    def heard(self, time: float, request: int, round_: int) -> None:
        """The outcome of a round arrived here, within the span that holds `time`."""
        self._add(Event(HEARD, "outcome", time, arrow=_arrow(request, round_)))

    def _add(self, event: Event) -> None:
        self._events.append(event)
        self._added += 1

    def take(self) -> ProcessTrace:
        """What there is; the ring is empty afterwards."""
        events = tuple(self._events)
        lost = self._added - len(events)
        self._events.clear()
        self._added = 0
        return ProcessTrace(self._name, self._pid, events, lost)


def chrome_trace(traces: Sequence[ProcessTrace]) -> dict[str, Any]:
    """One object of Chrome's trace format: microseconds since the first event, a process for each trace.

    Arrows of which one end was lost are left out. Every event of a process is on its one thread.
    """
    origin = min((event.start for trace in traces for event in trace.events), default=0.0)
    ends: dict[str, set[int]] = {
        phase: {event.arrow for trace in traces for event in trace.events if event.phase == phase}
        for phase in (SENT, HEARD)
    }
    whole = ends[SENT] & ends[HEARD]
    events: list[dict[str, Any]] = []
    for number, trace in enumerate(traces, start=1):
        label = {"name": f"{trace.name} (pid {trace.pid})"}
        events.append({"ph": "M", "name": "process_name", "pid": number, "tid": number, "args": label})
        events.append({"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": number}})
        events.append({"ph": "M", "name": "thread_name", "pid": number, "tid": number, "args": {"name": trace.name}})
        for event in sorted(trace.events, key=lambda event: (event.start, -event.seconds)):
            if event.phase not in (SENT, HEARD) or event.arrow in whole:
                events.append({**_plain(event, origin), "pid": number, "tid": number})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def shares(traces: Iterable[ProcessTrace]) -> dict[str, dict[str, Any]]:
    """For each process the seconds that its trace spans, and of each kind of span the seconds, share and number.

    The shares of a process and `rest`, in which none of its spans ran, add up to 1.
    """
    found: dict[str, dict[str, Any]] = {}
    for trace in traces:
        spans = [event for event in trace.events if event.phase == SPAN]
        start = min((event.start for event in spans), default=0.0)
        seconds = max((event.start + event.seconds for event in spans), default=0.0) - start
        kinds: dict[str, dict[str, float]] = {}
        for event in spans:
            kind = kinds.setdefault(event.name, {"seconds": 0.0, "share": 0.0, "count": 0})
            kind["seconds"] += event.seconds
            kind["count"] += 1
        for kind in kinds.values():
            kind["share"] = kind["seconds"] / seconds if seconds else 0.0
        rest = max(0.0, 1.0 - sum(kind["share"] for kind in kinds.values())) if seconds else 0.0
        ordered = dict(sorted(kinds.items(), key=lambda item: -item[1]["seconds"]))
        found[trace.name] = {"seconds": seconds, "kinds": ordered, "rest": rest, "lost_events": trace.lost}
    return found


def _plain(event: Event, origin: float) -> dict[str, Any]:
    """An event of Chrome's format, without its place."""
    plain: dict[str, Any] = {"ph": event.phase, "name": event.name, "ts": _microseconds(event.start - origin)}
    if event.phase == SPAN:
        plain["dur"] = _microseconds(event.seconds)
    elif event.phase == INSTANT:
        plain["s"] = "t"  # a mark on its thread
    else:
        plain |= {"cat": "outcome", "id": event.arrow}
        if event.phase == HEARD:
            plain["bp"] = "e"  # it ends at the span that holds it, not at the next one
    if event.about:
        plain["args"] = dict(event.about)
    return plain


def _microseconds(seconds: float) -> float:
    return round(1e6 * seconds, 3)


def _arrow(request: int, round_: int) -> int:
    return request << ROUND_BITS | round_ & ((1 << ROUND_BITS) - 1)
