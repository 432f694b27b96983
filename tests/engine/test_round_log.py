"""Lines of the round log, and files that it refuses."""

import json
import os
from pathlib import Path

import pytest

from saguaro.engine.misses import Lookup
from saguaro.engine.round_log import RoundLog, fields_of
from saguaro.engine.sequence import RoundReport
from saguaro.errors import ConfigError

REPORT = RoundReport(
    [4, 5], 3, 1, "neural", 3, 0.06, 0.1, 0.01, 12.5,
    round=4, lookup=Lookup(2, 9, "token_not_covered", 5), waits=(0.0, 0.05, 0.01), rows=2,
)  # fmt: skip
HIT = RoundReport(
    [4], 2, 0, "hit", 2, 0.0, 0.1, 0.01, 13.0, round=5, lookup=Lookup(1, 5, None, 6), waits=(0.0, 0.0, 0.0)
)


def test_a_line_says_what_was_looked_up_and_what_became_of_it() -> None:
    line = fields_of(7, 1, REPORT, looks_up=True)
    assert line.pop("wait_ms") == pytest.approx({"depth": 0.0, "pending": 50.0, "handover": 10.0})
    assert line == {
        "request": 7, "index": 1, "round": 4, "k": 2, "bonus": 9, "source": "neural", "hit": False,
        "reason": "token_not_covered", "proposed": 3, "accepted": 1, "depth": 0, "branches": 5, "verify_ms": 100.0,
        "rows": 2, "time": 12.5,
    }  # fmt: skip
    hit = fields_of(7, 0, HIT, looks_up=True)
    assert (hit["hit"], hit["reason"], hit["depth"]) == (True, None, 2)


def test_without_a_cache_there_is_neither_hit_nor_reason() -> None:
    line = fields_of(7, 0, REPORT, looks_up=False)
    assert (line["hit"], line["reason"]) == (None, None)


def test_every_line_is_there_at_once_and_earlier_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text('{"earlier": true}\n')
    log, other = RoundLog(str(path), "ssd"), RoundLog(str(path), "sd")
    for number, each in enumerate([log, other, log]):
        each.write(number, 0, REPORT, looks_up=True)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert len(lines) == number + 2
    assert [line.get("engine") for line in lines] == [None, "ssd", "sd", "ssd"]
    log.close()
    other.close()


def test_a_full_disk_ends_the_log_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    log = RoundLog("/dev/full", "ssd")
    for _ in range(3):
        log.write(1, 0, REPORT, looks_up=True)
    assert [record.message for record in caplog.records] == ["the round log ends here: No space left on device."]


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.write_text("")
    closed.chmod(0o400)
    bad = {str(tmp_path): "is a folder", str(tmp_path / "absent" / "x"): "does not exist"}
    if os.geteuid():  # nothing is closed to root
        bad[str(closed)] = "cannot be written"
    for path, reason in bad.items():
        with pytest.raises(ConfigError, match=reason):
            RoundLog(path, "ssd")
