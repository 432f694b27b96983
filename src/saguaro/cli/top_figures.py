"""What a server's `/metrics` say, as figures: rates between two readings, quantiles of histograms, the state of now.

Must not know: HTTP, terminals. Tests: tests/cli/test_top_figures.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from saguaro.errors import SaguaroError

PREFIX = "saguaro:"
QUANTILES = {"p50": 0.5, "p99": 0.99}
HISTOGRAMS = {
    "time_to_first_token_seconds": "time_to_first_token_seconds",
    "inter_token_latency_seconds": "inter_token_latency_seconds",
    "request_seconds": "e2e_request_latency_seconds",
}
"""What a figure is called, and the metric that it is made of."""
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Reading:
    """One look at a server: when (seconds of any clock), its health, its samples by name and labels."""

    time: float
    health: Mapping[str, Any]
    samples: Mapping[tuple[str, Labels], float]

    def value(self, name: str, **labels: str) -> float | None:
        """A sample; None where there is none."""
        return self.samples.get((name, tuple(sorted(labels.items()))))

    def by(self, name: str, label: str) -> dict[str, float]:
        """The samples of a name by one of their labels."""
        return {
            dict(labels)[label]: value
            for (each, labels), value in self.samples.items()
            if each == name and label in dict(labels)
        }


def read(time: float, health: Mapping[str, Any], page: str) -> Reading:
    """A reading of both pages.

    Raises:
        SaguaroError: they are not those of a Saguaro server.
    """
    samples: dict[tuple[str, Labels], float] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                samples[sample.name.removeprefix(PREFIX), tuple(sorted(sample.labels.items()))] = sample.value
    except ValueError as error:
        raise SaguaroError(f"its metrics cannot be read: {error}.") from None
    if not any(name == "engine_state" for name, _ in samples):
        raise SaguaroError("its metrics are not those of this server.")
    return Reading(time, health, samples)


def figures(new: Reading, old: Reading) -> dict[str, Any]:
    """All figures of a server as plain values; null where nothing was counted.

    `recent` is what happened between two readings, `since_start` all that the server counted.
    """
    gears = [gear for gear, value in new.by("gear", "gear").items() if value]
    return {
        "state": new.health.get("status"),
        "reason": new.health.get("reason"),
        "mode": new.health.get("mode"),
        "gear": gears[0] if gears else None,
        "draft": _draft(new),
        "draft_restarts": new.value("draft_restarts_total"),
        "running": new.value("num_requests_running"),
        "waiting": new.value("num_requests_waiting"),
        "kv_use": new.by("kv_cache_usage_ratio", "side"),
        "recent": _between(new, old),
        "since_start": _between(new, None),
    }


def _between(new: Reading, old: Reading | None) -> dict[str, Any]:
    def grown(name: str, **labels: str) -> float | None:
        value = new.value(name, **labels)
        return None if value is None else growth(value, old.value(name, **labels) if old else None)

    rounds, accepted, verified = (grown(f"{name}_total") for name in ("rounds", "accepted_tokens", "verified_tokens"))
    hits, misses = (grown(f"speculation_{name}_total") for name in ("hits", "misses"))
    tokens = None if rounds is None or accepted is None else rounds + accepted
    seconds = None if old is None else new.time - old.time
    found: dict[str, Any] = {
        "seconds": seconds,
        "tokens_per_second": _ratio(tokens, seconds),
        "tokens_a_round": _ratio(tokens, rounds),
        "acceptance_rate": _ratio(accepted, verified),
        "hit_rate": _ratio(hits, None if hits is None or misses is None else hits + misses),
    }
    for figure, name in HISTOGRAMS.items():
        buckets = _buckets(new, old, f"{name}_bucket")
        found[figure] = {each: quantile(buckets, share) for each, share in QUANTILES.items()}
    return found


def growth(new: float, old: float | None) -> float:
    """How much a counter grew; one that is smaller than it was has started anew."""
    return new if old is None or new < old else new - old


def _buckets(new: Reading, old: Reading | None, name: str) -> list[tuple[float, float]]:
    now, before = new.by(name, "le"), old.by(name, "le") if old is not None else {}
    restarted = any(now.get(bound, 0.0) < count for bound, count in before.items())
    counts = {bound: count - (0.0 if restarted else before.get(bound, 0.0)) for bound, count in now.items()}
    return sorted((float(bound), count) for bound, count in counts.items())


def quantile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """A quantile of a histogram, as Prometheus estimates it: evenly spread within a bucket.

    Args:
        buckets: (upper bound, number of observations up to it), by bound; the last bound is infinite.
        share: of the observations, 0 ... 1.

    Returns:
        None without observations; the largest finite bound when the quantile lies beyond it.
    """
    total = buckets[-1][1] if buckets else 0.0
    if total <= 0:
        return None
    rank, lower, below = share * total, 0.0, 0.0
    for bound, count in buckets:
        if count >= rank and count > below:
            return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / (count - below)
        lower, below = (lower if math.isinf(bound) else bound), count
    return lower


def _ratio(top: float | None, bottom: float | None) -> float | None:
    return top / bottom if top is not None and bottom else None


def _draft(reading: Reading) -> str | None:
    """`up`, `gone`, or `none` where there is no draft process; None when the engine says nothing."""
    if reading.value("rounds_total") is None:
        return None
    up = reading.value("draft_up")
    return "none" if up is None else "up" if up else "gone"
