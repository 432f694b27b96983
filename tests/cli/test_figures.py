"""`figures`: a record in, a picture out."""

import json

import pytest

pytest.importorskip("matplotlib")


@pytest.fixture
def record(tmp_path):
    run = {
        "mode": "ar", "repeat": 0, "temperature": 0.0, "batch": 2, "rate": None, "devices": "cpu:0",
        "tokens_per_second": 5.0, "total_tokens_per_second": 9.0, "tokens_per_second_per_device": 9.0,
    }  # fmt: skip
    path = tmp_path / "load.json"
    path.write_text(json.dumps({"machine": {}, "versions": {}, "config": {}, "runs": [run]}))
    return path


def test_beside_the_record(here, record):
    done = here("figures", record)
    assert done.status == 0, done.err
    assert record.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "load.png" in done.out


def test_where_it_is_told(here, record, tmp_path):
    assert here("figures", record, "--out", tmp_path / "a.svg", "--title", "One line", "--per-device").status == 0
    assert "One line" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required: RECORD"),
        (("/no/such.json",), "does not exist"),
        (("RECORD", "--out", "/no/such/folder/a.png"), "make it first"),
        (("RECORD", "--out", "a.gif"), "one of .png"),
        (("RECORD", "--titel", "x"), "did you mean '--title'"),
        (("RECORD", "--paper", "x"), "takes no RECORD"),
        (("--records", "x"), "give --paper FOLDER"),
        (("--paper", "x", "--records", "/no/such"), "is no folder"),
    ],
)
def test_refusals(here, record, arguments, message):
    done = here("figures", *(record if part == "RECORD" else part for part in arguments))
    assert (done.status, message in done.err) == (2, True), done.err
