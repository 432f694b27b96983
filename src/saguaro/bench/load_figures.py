"""From the times of closed and open loops to throughput, latencies, and whether the engine kept up.

Pure: no clocks, no engines. Every definition is a function of the deliveries of `load.Load`; docs/performance.md says
the same in a table. Tests: tests/bench/test_load_figures.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from saguaro.bench.load import Load, Served

KEPT_UP_SHARE = 0.9


def load_figures(loads: Sequence[Load], *, num_devices: int, arrivals: Sequence[float] | None = None) -> dict[str, Any]:
    """The fields of a run that come from when tokens arrived.

    Args:
        loads: the loops of the run; an open loop is one.
        num_devices: what the total is divided by.
        arrivals: of an open loop: when requests were due, in seconds from its beginning.
    """
    served = [one for load in loads for one in load.served]
    total = total_tokens_per_second(loads)
    offered = [one.first_token - one.arrival for one in served]
    return {
        "total_tokens_per_second": total,
        "tokens_per_second_per_device": total / num_devices,
        "num_devices": num_devices,
        **_percentiles("ttft_ms", [one.first_token - one.submitted for one in served]),
        **_percentiles("queue_ms", offered),
        **_percentiles("itl_ms", [gap for one in served for gap in token_gaps(one)]),
        **_percentiles("gap_ms", [gap for one in served for gap in delivery_gaps(one)]),
        "num_requests": len(served),
        **rates(loads, arrivals),
    }


def total_tokens_per_second(loads: Iterable[Load]) -> float:
    """All output tokens that arrived in the loaded phases, over the wall time of the loaded phases."""
    tokens, seconds = 0, 0.0
    for load in loads:
        deliveries = (each for one in load.served for each in one.deliveries)
        tokens += sum(each.tokens for each in deliveries if each.time <= load.loaded_until)
        seconds += load.loaded_until - load.began
    return tokens / seconds if seconds > 0 else 0.0


def token_gaps(served: Served) -> list[float]:
    """Inter-token latency, one value for each token after the first delivery.

    Tokens of a delivery arrive together; each counts the time since the delivery before, divided by their number.
    """
    pairs = pairwise(served.deliveries)
    return [(now.time - before.time) / now.tokens for before, now in pairs for _ in range(now.tokens)]


def delivery_gaps(served: Served) -> list[float]:
    """What a reader of the stream sees: the time between one delivery and the next, however many tokens it brings."""
    return [now.time - before.time for before, now in pairwise(served.deliveries)]


def rates(loads: Sequence[Load], arrivals: Sequence[float] | None) -> dict[str, Any]:
    """Offered and achieved rate of an open loop, in requests a second; null for a closed loop.

    `offered_rate` is requests ÷ time of the last arrival, `achieved_rate` requests ÷ time of the last end, both from
    the beginning of the loop. The engine kept up when the second is at least .9 of the first: what was left to do
    when arrivals ceased was short against the run. `backlog` counts the requests that were open at the last arrival.
    """
    if arrivals is None:
        return dict.fromkeys(("offered_rate", "achieved_rate", "kept_up", "backlog"))
    [load] = loads
    count, last = len(load.served), arrivals[-1]
    offered = count / last
    achieved = count / (load.loaded_until - load.began)
    return {
        "offered_rate": offered,
        "achieved_rate": achieved,
        "kept_up": achieved >= KEPT_UP_SHARE * offered,
        "backlog": sum(one.ended > load.began + last for one in load.served),
    }


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of the values do not exceed; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    rank = max(1, -(-len(ordered) * share // 1))
    return ordered[min(len(ordered), int(rank)) - 1]


def _percentiles(name: str, seconds: Sequence[float]) -> dict[str, float | None]:
    """`name`_p50 and `name`_p99 in milliseconds."""
    found = {f"{name}_{label}": quantile(seconds, share) for label, share in (("p50", 0.50), ("p99", 0.99))}
    return {key: None if value is None else 1000 * value for key, value in found.items()}
