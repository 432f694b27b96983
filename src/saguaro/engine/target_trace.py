"""What the target puts into its trace: the parts of a pass, and what the look-ups after it gave.

The waits between them are put there by `proposing.py`. Must not know: the draft, channels.
Tests: tests/cli/test_trace.py, tests/llm/test_metrics.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from saguaro.engine import sequence
from saguaro.engine.scheduler import Work
from saguaro.engine.trace import Ring


def trace_pass(ring: Ring, work: Sequence[Work], times: tuple[float, float, float, float]) -> None:
    """A pass, before its outcomes are committed. `times`: when it began and ended, and when drawing did."""
    began, passed, drawing, drawn = times
    filling = [w for w in work if w.sequence.filling]
    kind = "verify" if not filling else ("prefill" if len(filling) == len(work) else "verify + prefill")
    about = {
        "requests": [w.sequence.request for w in work],
        "rows": sum(w.count + len(w.sequence.proposed.tokens) * w.ends for w in work),
        "prompt tokens": sum(w.count for w in filling),
    }
    ring.span(kind, began, passed, about)
    if drawn > drawing:
        ring.span("draw", drawing, drawn)


def trace_answers(ring: Ring, rows: Iterable[sequence.Sequence], now: float) -> None:
    """What each row's outcome gave: a hit, or a miss and its reason."""
    for s in rows:
        p, lookup = s.proposed, s.proposed.lookup
        about = {
            "request": s.request,
            "round": s.round,
            "k": lookup.accepted,
            "bonus": lookup.bonus,
            "source": p.source,
            "depth": p.depth,
            "branches": lookup.branches,
        }
        ring.instant("hit" if lookup.reason is None else f"miss: {lookup.reason}", now, about)
