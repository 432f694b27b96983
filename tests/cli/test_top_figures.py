"""Figures from written pages: quantiles by hand, rates between readings, a server that began anew."""

import pytest

from saguaro.cli.top_figures import figures, growth, quantile, read
from saguaro.errors import SaguaroError

INF = float("inf")
HEALTH = {"status": "alive", "reason": None, "mode": "ssd"}


def page(**values):
    """A page with an engine's state and samples; names with labels in their Prometheus form."""
    lines = ['saguaro:engine_state{state="alive"} 1']
    lines += [f"saguaro:{name} {value}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def buckets(name, *counts):
    bounds = ("0.1", "0.2", "+Inf")
    return {f'{name}_bucket{{le="{bound}"}}': count for bound, count in zip(bounds, counts, strict=True)}


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ([(1.0, 10), (2.0, 10), (INF, 10)], 0.5, 0.5),
        ([(1.0, 0), (2.0, 10), (INF, 10)], 0.25, 1.25),
        ([(1.0, 5), (2.0, 10), (INF, 10)], 0.5, 1.0),
        ([(1.0, 5), (2.0, 10), (INF, 10)], 0.99, 1.98),
        ([(1.0, 5), (2.0, 5), (INF, 10)], 0.99, 2.0),  # beyond every bound
        ([(1.0, 5), (2.0, 5), (4.0, 10), (INF, 10)], 0.75, 3.0),  # an empty bucket between
        ([(INF, 3)], 0.5, 0.0),
        ([(1.0, 0), (INF, 0)], 0.5, None),
        ([], 0.5, None),
    ],
)
def test_quantiles(counts, share, value):
    found = quantile(counts, share)
    assert found == (None if value is None else pytest.approx(value))


def test_growth_of_a_counter_that_began_anew():
    assert growth(7, 3) == 4
    assert growth(3, 7) == 3
    assert growth(3, None) == 3


def test_rates_between_two_readings():
    first = {"rounds_total": 10, "accepted_tokens_total": 20, "verified_tokens_total": 40, "draft_up": 1}
    first |= {"speculation_hits_total": 5, "speculation_misses_total": 5}
    second = {**first, "rounds_total": 20, "accepted_tokens_total": 50, "verified_tokens_total": 80}
    second |= {"speculation_hits_total": 14, "speculation_misses_total": 6, "num_requests_running": 2}
    second |= {'kv_cache_usage_ratio{side="target"}': 0.25, 'gear{gear="ssd"}': 1}
    old = read(100.0, HEALTH, page(**first, **buckets("time_to_first_token_seconds", 100, 100, 100)))
    new = read(104.0, HEALTH, page(**second, **buckets("time_to_first_token_seconds", 100, 110, 110)))
    found = figures(new, old)
    recent, whole = found["recent"], found["since_start"]
    assert recent["seconds"] == 4.0
    assert recent["tokens_per_second"] == 10.0
    assert recent["tokens_a_round"] == 4.0
    assert (recent["acceptance_rate"], recent["hit_rate"]) == (0.75, 0.9)
    assert recent["time_to_first_token_seconds"] == {"p50": pytest.approx(0.15), "p99": pytest.approx(0.199)}
    assert whole["time_to_first_token_seconds"]["p50"] == pytest.approx(0.055)
    assert (whole["tokens_per_second"], whole["hit_rate"]) == (None, 0.7)
    assert recent["inter_token_latency_seconds"] == {"p50": None, "p99": None}
    assert (found["running"], found["waiting"], found["gear"], found["draft"]) == (2, None, "ssd", "up")
    assert found["kv_use"] == {"target": 0.25}
    again = figures(read(105.0, HEALTH, page(**buckets("time_to_first_token_seconds", 0, 2, 2))), new)
    assert again["recent"]["time_to_first_token_seconds"]["p50"] == pytest.approx(0.15)


@pytest.mark.parametrize(("samples", "draft"), [({}, None), ({"rounds_total": 1}, "none")])
def test_without_a_draft_and_without_an_engine(samples, draft):
    reading = read(1.0, {"status": "dead", "reason": "gone."}, page(**samples))
    found = figures(reading, reading)
    assert (found["state"], found["draft"]) == ("dead", draft)
    assert found["recent"]["tokens_per_second"] is None


@pytest.mark.parametrize("text", ["up 1\n", "<html>", ""])
def test_pages_of_others(text):
    with pytest.raises(SaguaroError, match="its metrics"):
        read(1.0, HEALTH, text)
