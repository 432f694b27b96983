"""Summaries of loads: medians over repeats, ratios within them."""

import pytest

from saguaro.bench.summary import MEASURED, load_rows
from saguaro.errors import ConfigError


def a_run(mode, total, repeat=0, **more):
    return {
        "mode": mode, "repeat": repeat, "temperature": 0.0, "batch": 4, "rate": None, "devices": "cpu:0",
        "equal_hardware": False, "verification": "shared_noise", "tokens_per_second": total / 4,
        "total_tokens_per_second": total, "tokens_per_second_per_device": total / 2, "ttft_ms_p50": 10.0, **more,
    }  # fmt: skip


def test_medians_and_ratios():
    """The machine slows down; ratios are taken within a repeat."""
    slow = (1.0, 0.5, 0.8)
    runs = [a_run(mode, speed * slow[i], i) for i in range(3) for mode, speed in (("ar", 40), ("ssd", 100))]
    ar, ssd = load_rows({"runs": runs})
    assert (ar.label, ssd.label, ssd.repeats, ssd.batch) == ("AR", "SSD", 3, 4)
    assert (ssd.medians["total_tokens_per_second"], ssd.low, ssd.high) == (80, 50, 100)
    assert (ar.over_ar, ssd.over_ar) == (1.0, pytest.approx(2.5))
    assert ssd.medians["tokens_per_second"] == 20
    assert ssd.medians.keys() == set(MEASURED)
    assert (ssd.medians["gap_ms_p99"], ssd.kept_up) == (None, None)


def test_settings_are_kept_apart():
    other = (
        {"equal_hardware": True}, {"batch": 8}, {"temperature": 1.0}, {"verification": "rejection"}, {"rate": 2.0},
    )  # fmt: skip
    runs = [a_run("sd", 10), *(a_run("sd", 20, **more) for more in other)]
    found = [(row.temperature, row.rate, row.batch, row.label) for row in load_rows({"runs": runs})]
    assert found == [
        (0.0, None, 4, "SD"), (0.0, None, 4, "SD, all devices"), (0.0, None, 4, "SD, rejection"),
        (0.0, None, 8, "SD"), (0.0, 2.0, 4, "SD"), (1.0, None, 4, "SD"),
    ]  # fmt: skip


def test_repeats_that_kept_up_are_counted():
    runs = [a_run("ar", 10, i, rate=2.0, kept_up=kept) for i, kept in enumerate((True, False, True))]
    [row] = load_rows({"runs": runs})
    assert (row.kept_up, row.repeats, row.rate) == (2, 3, 2.0)


def test_a_record_without_totals():
    with pytest.raises(ConfigError, match="no run with tokens in all"):
        load_rows({"table": {}})
