"""Summaries and the tables made of records."""

import pytest

from saguaro.errors import ConfigError
from saguaro.records import describe, fill, fill_files, markdown, read_record, summarise, write_record


def a_run(mode, speed, repeat, **more):
    return {
        "mode": mode, "repeat": repeat, "temperature": 0.0, "batch": 1, "tokens_per_second": speed, "devices": "cpu:0",
        "dtype": "int8", "hit_rate": 0.8 if mode == "ssd" else None, "acceptance_length": 2.5, "verify_ms": 70.0,
        "ttft_ms": 100.0,
        "bound": 50.0 if mode == "ssd" else None, "equal_hardware": False, **more,
    }  # fmt: skip


@pytest.fixture
def record():
    """The machine slows down between repeats; the ratios stay."""
    runs = [
        run
        for repeat, slow in enumerate((1.0, 0.5, 0.8))
        for run in (
            a_run("ar", 10 * slow, repeat),
            a_run("sd", 16 * slow, repeat),
            a_run("ssd", 24 * slow, repeat),
            a_run("sd", 25 * slow, repeat, equal_hardware=True, devices="cpu:0-1"),
        )
    ]
    config = {"target": "big", "draft": "small", "dataset": "humaneval", "num_prompts": 16,
              "max_tokens": 128, "repeats": 3}  # fmt: skip
    return {"machine": {"cpu": "CPU", "cores": 2}, "versions": {}, "config": config, "runs": runs}


def test_summary(record):
    ar, sd, ssd, everyone = summarise(record)
    assert (ar.tokens_per_second, ar.low, ar.high) == (8.0, 5.0, 10.0)
    assert ssd.speedup_ar == pytest.approx(2.4)
    assert ssd.speedup_sd == pytest.approx(1.5)
    assert (ar.speedup_ar, sd.hit_rate, ssd.hit_rate) == (1.0, None, 0.8)
    assert ssd.bound_share == pytest.approx(19.2 / 50)
    assert (everyone.label, everyone.speedup_sd) == ("SD, all devices", 25 / 16)


def test_ratios_are_taken_within_a_repeat(record):
    """With medians of speeds one by one, a repeat that is missing on one side would shift the ratio."""
    record["runs"] = [run for run in record["runs"] if not (run["mode"] == "ar" and run["repeat"] == 1)]
    assert summarise(record)[2].speedup_ar == pytest.approx(2.4)


def test_temperatures_and_batches_are_kept_apart(record):
    record["runs"] += [a_run("ar", 5.0, 0, temperature=1.0), a_run("ar", 3.0, 0, batch=4)]
    assert [(row.temperature, row.batch) for row in summarise(record)] == [(0.0, 1)] * 4 + [(0.0, 4), (1.0, 1)]
    assert summarise(record)[-1].speedup_sd is None


def test_markdown(record):
    text = markdown(record)
    assert "| SSD | cpu:0 | 19.2 (12.0–24.0) | 2.40 | 1.50 | 2.50 | 0.80 |" in text
    assert "temperature" not in text
    assert text.rstrip().endswith(describe(record))
    record["runs"] += [a_run("ar", 5.0, 0, temperature=1.0)]
    assert text.count("|") < markdown(record).count("|")
    assert "temperature" in markdown(record)


def test_plain_table():
    record = {"table": {"columns": ["rows", "ms"], "rows": [[1, 70.1], [6, 80]]}, "note": "One core."}
    assert markdown(record) == "| rows | ms |\n|---|---|\n| 1 | 70.1 |\n| 6 | 80 |\n\nOne core.\n"


def test_fill(record, tmp_path):
    write_record(record, tmp_path / "one.json")
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- figures:one -->\n<!-- /figures -->\nb\n<!-- figures:two -->\nold\n<!-- /figures -->\n")
    assert fill_files([page], tmp_path) == [page]
    text = page.read_text()
    assert markdown(record) in text
    assert "_No record `two` yet._" in text
    assert "old" not in text
    assert fill(text, tmp_path) == text
    assert fill_files([page], tmp_path) == []


def test_bad_records(tmp_path):
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text("{}")
    for name, message in (("a", "not JSON"), ("b", "is not a record"), ("c", "does not exist")):
        with pytest.raises(ConfigError, match=message):
            read_record(tmp_path / f"{name}.json")


def test_written_whole_or_not_at_all(record, tmp_path):
    path = tmp_path / "a.json"
    write_record(record, path)
    with pytest.raises(TypeError):
        write_record({"runs": [object()]}, path)
    assert read_record(path) == record
