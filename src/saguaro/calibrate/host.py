"""What a round takes beside its passes, from the traces of an engine that waits for its draft.

    target  │ verify │ draw │ report, look up, tell │ wait ...                                │ verify ...
    draft                                           │ out │ pass │ between │ pass │ back     │

The sum of its passes is not the time of a round: an outcome has to be reported, told and read, a pass is chosen before
it runs, and its token is written and seen. All of it is taken as a mean over the rounds, as what is predicted is one.
Must not know: engines, files. Tests: tests/calibrate/test_host.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from saguaro.engine.trace import SPAN, Event, ProcessTrace
from saguaro.errors import ConfigError

PASSES = ("verify", "prefill", "verify + prefill")
DRAW, WAIT, TAIL = "draw", "wait, ", "tail"


@dataclass(frozen=True)
class HostWork:
    """Seconds, as means.

    Args:
        link: from one side to the other: half of what a wait takes beside the passes that it waits for.
        between: from the end of a pass of the draft to the beginning of the next one of the same wait.
        handling: of a round, beside verification, drawing and waiting.
    """

    link: float
    between: float
    handling: float


def host_work(traces: Sequence[ProcessTrace]) -> HostWork:
    """What the rounds of some requests took beside passes.

    Args:
        traces: of target and draft; the draft works when it is asked and not otherwise (`recording.py`).

    Raises:
        ConfigError: when no round of them waited for the draft, or none followed another.
    """
    target, draft = (_spans(traces, name) for name in ("target", "draft"))
    rounds = _between_rounds(target)
    out, between, back = _in_waits([each for each in target if each.name.startswith(WAIT)], draft)
    if not rounds or not out:
        raise ConfigError("the trace holds no two rounds of a request with a wait for the draft between them.")
    return HostWork((fmean(out) + fmean(back)) / 2, fmean(between) if between else 0.0, fmean(rounds))


def _spans(traces: Sequence[ProcessTrace], name: str) -> list[Event]:
    """The spans of a process in the order of their beginnings."""
    found = [event for trace in traces if trace.name == name for event in trace.events if event.phase == SPAN]
    return sorted(found, key=lambda event: event.start)


def _between_rounds(target: Sequence[Event]) -> list[float]:
    """From the end of each verification to the beginning of the next one of the same rows, without draws and waits."""
    passes = [event for event in target if event.name in PASSES]
    found = []
    for one, other in pairwise(passes):
        if (one.name, one.about and one.about["requests"]) != (other.name, other.about and other.about["requests"]):
            continue
        if one.name != "verify":
            continue
        inside = (each for each in target if one.start < each.start < other.start)
        taken = sum(each.seconds for each in inside if each.name == DRAW or each.name.startswith(WAIT))
        found.append(other.start - one.start - one.seconds - taken)
    return found


def _in_waits(waits: Sequence[Event], draft: Sequence[Event]) -> tuple[list[float], list[float], list[float]]:
    """Of each wait: until the first pass begins, between its passes, and after the last one has ended."""
    out, between, back = [], [], []
    for wait in waits:
        end = wait.start + wait.seconds
        own = [each for each in draft if each.name == TAIL and wait.start <= each.start + each.seconds / 2 < end]
        if not own:
            continue
        out.append(max(0.0, own[0].start - wait.start))
        between += [other.start - one.start - one.seconds for one, other in pairwise(own)]
        back.append(max(0.0, end - own[-1].start - own[-1].seconds))
    return out, between, back
