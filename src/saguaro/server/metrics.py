"""`/metrics`: what Prometheus reads. Names begin with `saguaro:`; docs/serving.md lists them.

Histograms and counters of requests are kept here; everything about the engine comes from its statistics at the moment
of the question. Must not know: HTTP, how an engine works. Tests: tests/server/test_metrics.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from saguaro.request import RequestMetrics
from saguaro.server.health import Health

LATENCY = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
BETWEEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
SIZES = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
STATES = ("alive", "degraded", "dead", "stopping")
PLAIN = (
    ("saguaro:num_requests_running", "Choices that run.", "running"),
    ("saguaro:num_requests_waiting", "Choices that wait for a row.", "waiting"),
    ("saguaro:untold_rows", "Rows that the draft was never told of.", "untold_rows"),
)
COUNTED = (
    ("saguaro:rounds", "Verifications.", "rounds"),
    ("saguaro:draft_tokens", "Proposal tokens that a verification ran.", "drafted"),
    ("saguaro:verified_tokens", "Proposal tokens up to and with the first rejection.", "verified"),
    ("saguaro:accepted_tokens", "Tokens of rounds, without one a round.", "accepted"),
    ("saguaro:speculation_hits", "Outcomes that were in the speculation cache.", "hits"),
    ("saguaro:speculation_misses", "Outcomes that were not.", "misses"),
    ("saguaro:prompt_tokens_computed", "Prompt tokens that were computed.", "prefill_tokens"),
    ("saguaro:prefix_cache_hit_tokens", "Prompt tokens that were known.", "cached_tokens"),
    ("saguaro:verify_seconds", "Seconds of verifications, a row.", "verify_seconds"),
    (
        "saguaro:target_wait_seconds",
        "Seconds between an outcome and the next verification, a row.",
        "target_wait_seconds",
    ),
)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._engine = _EngineMetrics()
        registry.register(self._engine)
        self._first = Histogram(
            "saguaro:time_to_first_token_seconds",
            "From the call to the first token.",
            buckets=LATENCY,
            registry=registry,
        )
        self._between = Histogram(
            "saguaro:inter_token_latency_seconds", "A round's seconds a token.", buckets=BETWEEN, registry=registry
        )
        self._whole = Histogram(
            "saguaro:e2e_request_latency_seconds", "From the request to its end.", buckets=LATENCY, registry=registry
        )
        self._prompt = Histogram(
            "saguaro:request_prompt_tokens", "Tokens of a prompt.", buckets=SIZES, registry=registry
        )
        self._output = Histogram(
            "saguaro:request_generation_tokens", "Tokens of an answer.", buckets=SIZES, registry=registry
        )
        self._prompt_total = Counter("saguaro:prompt_tokens", "Tokens of prompts.", registry=registry)
        self._output_total = Counter("saguaro:generation_tokens", "Tokens of answers.", registry=registry)
        self._ended = Counter(
            "saguaro:request_success", "Choices by how they ended.", ["finished_reason"], registry=registry
        )
        self._answers = Counter(
            "saguaro:http_requests", "Answers by path and status.", ["path", "status"], registry=registry
        )

    def answered(self, path: str, status: int) -> None:
        """A request was answered; 499 stands for a client that left first."""
        self._answers.labels(path, str(status)).inc()

    def ended(self, metrics: RequestMetrics, finish: str, *, prompt: int, output: int, seconds: float) -> None:
        """A choice ended; one that was left by its client ends with `abort`."""
        self._ended.labels(finish).inc()
        self._prompt.observe(prompt)
        self._output.observe(output)
        self._prompt_total.inc(prompt)
        self._output_total.inc(output)
        self._whole.observe(seconds)
        if output:
            self._first.observe(metrics.time_to_first_token)
        for took, tokens in zip(metrics.round_seconds, metrics.round_tokens, strict=False):
            for _ in range(tokens):
                self._between.observe(took / tokens)

    def text(self, health: Health, statistics: Mapping[str, Any] | None, *, restarts: int = 0) -> bytes:
        """The page, in Prometheus' text form. `restarts`: engines that took the place of lost ones."""
        self._engine.health, self._engine.statistics, self._engine.restarts = health, statistics, restarts
        return generate_latest(self._registry)


class _EngineMetrics(Collector):
    """What an engine's statistics say; without them its state alone."""

    def __init__(self) -> None:
        self.health = Health("alive")
        self.statistics: Mapping[str, Any] | None = None
        self.restarts = 0

    def describe(self) -> Iterable[Metric]:
        return ()  # nothing is asked of the engine at registration

    def collect(self) -> Iterator[Metric]:
        state = GaugeMetricFamily("saguaro:engine_state", "1 for the present state.", labels=["state"])
        for name in STATES:
            state.add_metric([name], float(name == self.health.status))
        yield state
        text = "New engines in place of lost ones."
        yield CounterMetricFamily("saguaro:engine_restarts", text, value=float(self.restarts))
        if self.statistics is not None:
            yield from _of_engine(self.statistics)
            yield from _of_totals(self.statistics["totals"])


def _of_engine(found: Mapping[str, Any]) -> Iterator[Metric]:
    for name, text, key in PLAIN:
        yield GaugeMetricFamily(name, text, value=float(found[key]))
    yield CounterMetricFamily("saguaro:num_preemptions", "Preemptions.", value=float(found["preemptions"]))
    yield CounterMetricFamily(
        "saguaro:draft_restarts", "New draft processes.", value=float(found.get("draft_restarts", 0))
    )
    draft = found.get("draft")
    up = GaugeMetricFamily("saguaro:draft_up", "Whether the draft answers; absent where there is no draft process.")
    if "draft" in found:
        up.add_metric([], float(draft is not None))
    yield up
    room = GaugeMetricFamily("saguaro:kv_cache_usage_ratio", "Share of the pages that rows use.", labels=["side"])
    kept = GaugeMetricFamily("saguaro:kv_cache_kept_pages", "Pages kept for prompts that begin alike.", labels=["side"])
    for side, pages in (("target", found), ("draft", draft)):
        if pages is not None:
            room.add_metric([side], pages["pages_used"] / max(1, pages["pages"]))
            kept.add_metric([side], pages["pages_kept"])
    yield from (room, kept)
    if draft is not None:
        yield GaugeMetricFamily(
            "saguaro:draft_unspeculated", "Rows without room in the draft.", value=draft["unspeculated"]
        )
        for name in ("busy", "idle"):
            text = f"Seconds of the present draft: {name}."
            yield CounterMetricFamily(f"saguaro:draft_{name}_seconds", text, value=draft[f"{name}_seconds"])
    waits = CounterMetricFamily("saguaro:target_waits_seconds", "The target's waits, once a round.", labels=["kind"])
    for kind in ("depth", "pending", "handover"):
        waits.add_metric([kind], found["waited"].get(kind, 0.0))
    yield waits
    chosen = CounterMetricFamily("saguaro:fallback_answers", "Answers to misses by source.", labels=["source"])
    for source, count in found["fallback"]["chosen"].items():
        chosen.add_metric([source], float(count))
    yield chosen
    gear = GaugeMetricFamily("saguaro:gear", "1 for the present way of decoding.", labels=["gear"])
    gear.add_metric([str(found["gears"]["gear"])], 1.0)
    yield gear


def _of_totals(totals: Mapping[str, Any]) -> Iterator[Metric]:
    for name, text, key in COUNTED:
        yield CounterMetricFamily(name, text, value=float(totals[key]))
    for name, key in (("saguaro:speculation_hit_rate", "hit_rate"), ("saguaro:acceptance_length", "acceptance_length")):
        rate = GaugeMetricFamily(name, f"{key} since the start (docs/metrics.md).")
        if totals[key] is not None:
            rate.add_metric([], totals[key])
        yield rate
    for name, key in (("accepted", "accepted_per_position"), ("verified", "verified_per_position")):
        places = CounterMetricFamily(f"saguaro:{name}_tokens_per_position", f"{key}.", labels=["position"])
        for position, count in enumerate(totals[key]):
            places.add_metric([str(position)], float(count))
        yield places
    reasons = CounterMetricFamily("saguaro:speculation_miss_reasons", "Misses by reason.", labels=["reason"])
    for reason, count in totals["miss_reasons"].items():
        reasons.add_metric([reason], float(count))
    yield reasons
