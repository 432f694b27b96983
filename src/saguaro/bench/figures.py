"""From completions and measured step times to the numbers of one run: speed of a request, acceptance, hits, step times.

What depends on when tokens of several requests arrived is in `load_figures`. Pure: no clocks, no engines. Definitions:
DESIGN section 5. Tests: tests/bench/test_figures.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile, zip_longest
from typing import Any

from saguaro.bench.equality import token_ids_sha256
from saguaro.request import MISS_REASONS, Completion, RequestMetrics
from saguaro.theory.acceptance import expected_by_depth
from saguaro.theory.speedup import bound as best_of_depths
from saguaro.theory.step_times import time_for

PLAN_FIELDS = ("lookahead", "budget", "fan_out", "fallback", "verification", "dtype")
AFTER = ("rounds_after_hit", "hits_after_hit", "rounds_after_miss", "hits_after_miss")
BY_PLACE = (
    "rounds_by_accepted",
    "hits_by_accepted",
    "hit_accepted_per_position",
    "hit_verified_per_position",
    "miss_accepted_per_position",
    "miss_verified_per_position",
)
ACTIVITY = ("steps", "steps_given_up", "rows_run", "busy_seconds", "idle_seconds")


def run_figures(
    done: Sequence[Completion],
    statistics: Mapping[str, Any],
    *,
    mode: str,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The measured fields of one run.

    Args:
        done: completions, in order of the numbers of their requests.
        statistics: `LLM.statistics()` after the run.
        mode: `ar`, `sd`, `ssd` or `auto`.
        before: `LLM.statistics()` before the run, for what it counts since the start.
    """
    metrics = [completion.metrics for completion in done]
    rounds = sum(m.rounds for m in metrics)
    after_first = sum(len(c.token_ids) - 1 for c in done)
    looked = sum(m.hits + m.misses for m in metrics)
    hits = sum(m.hits for m in metrics)
    return {
        "tokens_per_second": _ratio(after_first, sum(m.decode_seconds for m in metrics)) or 0.0,
        "acceptance_length": _ratio(rounds + sum(m.accepted for m in metrics), rounds),
        "acceptance_rate": _ratio(sum(m.accepted for m in metrics), sum(m.verified for m in metrics)),
        "accepted_share": _ratio(sum(m.accepted for m in metrics), sum(m.drafted for m in metrics)),
        "hit_rate": _ratio(hits, looked) if mode in ("ssd", "auto") else None,
        "depth": _ratio(sum(m.hit_depth_sum for m in metrics), hits),
        "verify_ms": _ms(_ratio(sum(m.verify_seconds for m in metrics), rounds)),
        "draw_ms": _ms(_ratio(sum(m.draw_seconds for m in metrics), rounds)),
        "draft_round_ms": _ms(draft_round_seconds(statistics, mode=mode)),
        "target_wait_ms": _ms(_ratio(sum(m.target_wait_seconds for m in metrics), rounds)),
        "wait_ms": waits(before or {}, statistics),
        "prefill_tokens_per_second": _ratio(
            sum(m.prefill_tokens for m in metrics), sum(m.prefill_seconds for m in metrics)
        ),
        "ttft_ms": _ms(_ratio(sum(m.time_to_first_token for m in metrics), len(metrics))),
        "output_tokens": sum(len(c.token_ids) for c in done),
        "rounds": rounds,
        "token_ids_sha256": token_ids_sha256([c.token_ids for c in done]),
        "bound": bound_tokens_per_second(metrics, statistics) if mode == "ssd" else None,
        **(cache_figures(metrics) if mode == "ssd" else {}),
        "draft_activity": draft_activity(before or {}, statistics),
    }


def plan_figures(statistics: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """What was in force: resolved values where the engine reports them, else the options as given."""
    plan = dict(statistics.get("plan") or {})
    return {name: plan.get(name, options.get(name)) for name in PLAN_FIELDS}


def waits(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
    """Milliseconds a round that the target waited, by reason, between two statistics of one engine.

    Reasons: `depth` (a covered outcome, for a deeper entry), `pending` (a missed row, for a neural proposal) and
    `handover` (passing the answer over).
    """
    old, new = dict(before.get("waited") or {}), dict(after.get("waited") or {})
    grown = {name: float(value) - float(old.get(name, 0.0)) for name, value in new.items()}
    rounds = grown.pop("rounds", 0.0)
    return {name: 1000 * seconds / rounds for name, seconds in grown.items()} if rounds else {}


def cache_figures(metrics: Sequence[RequestMetrics]) -> dict[str, Any]:
    """Hits and misses of a run in detail, as docs/metrics.md defines them; counts, so that records can be added up."""
    looked = sum(m.hits + m.misses for m in metrics)
    return {
        "hits": sum(m.hits for m in metrics),
        "misses": sum(m.misses for m in metrics),
        "miss_reasons": {reason: sum(m.miss_reasons[reason] for m in metrics) for reason in MISS_REASONS},
        "budget_used": _ratio(sum(m.branches for m in metrics), looked),
        **{name: sum(getattr(m, name) for m in metrics) for name in AFTER},
        **{name: added([getattr(m, name) for m in metrics]) for name in BY_PLACE},
    }


def draft_activity(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float] | None:
    """What the draft did between two statistics of one engine; None without a draft, or where it was replaced."""
    old, new = dict(before.get("draft") or {}), dict(after.get("draft") or {})
    if not set(ACTIVITY) <= set(new) or before.get("draft_restarts", 0) != after.get("draft_restarts", 0):
        return None
    return {name: new[name] - old.get(name, 0) for name in ACTIVITY}


def added(lists: Sequence[Sequence[int]]) -> list[int]:
    """The sum of lists, entry by entry; shorter ones go on with zeros."""
    return [sum(counts) for counts in zip_longest(*lists, fillvalue=0)]


def draft_round_seconds(statistics: Mapping[str, Any], *, mode: str) -> float | None:
    """Time of a whole round of the draft: as measured, else one extend and K steps from the measured step times."""
    if mode == "ar":
        return None
    measured = statistics.get("draft_round_seconds")
    if measured is not None:
        return float(measured)
    plan, steps = dict(statistics.get("plan") or {}), _times(statistics, "draft_step_seconds")
    lookahead, budget = plan.get("lookahead"), plan.get("budget")
    if not steps or not isinstance(lookahead, int):
        return None
    rows = budget if mode != "sd" and isinstance(budget, int) else 1
    return time_for(steps, 1) + lookahead * time_for(steps, max(1, rows))


def bound_tokens_per_second(metrics: Sequence[RequestMetrics], statistics: Mapping[str, Any]) -> float | None:
    """The best SSD that the measured step times allow, if every round hit and branches were free, in tokens/s.

    max over d of E(d) / max(verify(d + 1 rows), time until depth d): E from the acceptance of each position in these
    requests, step times as measured while both processes ran; depth d takes an extend and d steps of one row.
    """
    verify, steps = _times(statistics, "verify_seconds"), _times(statistics, "draft_step_seconds")
    if not verify or not steps:
        return None
    expected = expected_by_depth(acceptance_by_position(metrics))
    depths = range(len(expected))
    step = time_for(steps, 1)
    best = best_of_depths(
        expected,
        verify_seconds=[time_for(verify, d + 1) for d in depths],
        seconds_until_depth=[step * (d + 1) if d else 0.0 for d in depths],
    )
    return best.rate


def acceptance_by_position(metrics: Sequence[RequestMetrics]) -> list[float]:
    """accepted / verified of each position over all requests, up to the first that was never verified."""
    accepted = added([m.accepted_per_position for m in metrics])
    verified = added([m.verified_per_position for m in metrics])
    pairs = zip_longest(accepted, verified, fillvalue=0)
    return [a / v for a, v in takewhile(lambda pair: pair[1] > 0, pairs)]


def _times(statistics: Mapping[str, Any], name: str) -> dict[int, float]:
    """Seconds by number of rows: measured at start, replaced by running estimates where the engine has them."""
    found: dict[int, float] = {}
    for values in (dict(statistics.get("measured") or {}).get(name), statistics.get(name)):
        if isinstance(values, Mapping):
            found |= {int(rows): float(seconds) for rows, seconds in values.items() if seconds}
    return found


def _ratio(top: float, bottom: float) -> float | None:
    return top / bottom if bottom else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * float(seconds)
