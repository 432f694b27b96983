"""`bench` end to end with real tiny models in one process."""

import json

import pytest

from saguaro.cli.bench import verdict

FIELDS = {
    "mode", "repeat", "dataset", "batch", "temperature", "tokens_per_second", "acceptance_length", "acceptance_rate",
    "hit_rate", "depth", "verify_ms", "draw_ms", "draft_round_ms", "target_wait_ms", "ttft_ms",
    "prefill_tokens_per_second", "itl_ms_p50", "itl_ms_p99",
    "output_tokens", "token_ids_sha256", "devices", "lookahead", "budget", "fan_out", "fallback", "verification",
    "dtype", "bound",
}  # fmt: skip


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "tiny" / "prompts.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps({"id": i, "prompt": "abc" * (i + 1)}) + "\n" for i in range(3)))
    return path


def test_record(here, toy, prompts, tmp_path):
    out = tmp_path / "out.json"
    done = here(
        "bench", *toy, "--prompts", prompts, "--num-prompts", 2, "--max-tokens", 8, "--repeats", 2,
        "--temperature", "0,1", "--batch", "1,2", "--json", out,
    )  # fmt: skip
    assert done.status == 0, done.err
    record = json.loads(out.read_text())
    assert record.keys() >= {"machine", "versions", "config", "runs"}
    assert record["complete"]
    assert record["config"]["weight_bytes_per_pass"].keys() == {"target", "draft"}
    assert len(record["runs"]) == 3 * 2 * 2 * 2
    assert all(run.keys() >= FIELDS for run in record["runs"])
    assert {run["dataset"] for run in record["runs"]} == {"tiny"}
    assert {run["output_tokens"] for run in record["runs"]} == {16}  # the end is ignored
    for run in record["runs"]:
        assert (run["hit_rate"] is None) == (run["mode"] != "ssd")
    hashes = {(run["temperature"], run["token_ids_sha256"]) for run in record["runs"]}
    assert len(hashes) == 2  # one output a temperature, whatever mode, batch and repeat
    assert "Outputs are equal" in done.out
    assert str(tmp_path) not in out.read_text()


def test_modes_and_equal_hardware(here, toy, prompts, tmp_path):
    out = tmp_path / "out.json"
    flags = (
        "--num-prompts",
        1,
        "--max-tokens",
        4,
        "--repeats",
        1,
        "--target-device",
        "cpu:0",
        "--draft-device",
        "cpu:0",
    )
    done = here("bench", *toy, "--prompts", prompts, "--modes", "sd,ar", "--equal-hardware", *flags, "--json", out)
    assert done.status == 0, done.err
    runs = json.loads(out.read_text())["runs"]
    assert [(run["mode"], run["equal_hardware"]) for run in runs] == [
        ("sd", False), ("ar", False), ("sd", True), ("ar", True),
    ]  # fmt: skip


def test_nowhere_to_write(here, toy, prompts):
    done = here("bench", *toy, "--prompts", prompts, "--num-prompts", 1, "--json", "/no/such/folder/out.json")
    assert (done.status, "make it first" in done.err) == (2, True)


def test_placements_exclude_each_other(here, toy, prompts):
    done = here("bench", *toy, "--prompts", prompts, "--paper-placement", "--equal-hardware")
    assert (done.status, "not allowed with" in done.err) == (2, True)


def test_verdict():
    def entry(*, equal, expected=True):
        where = None if equal else {"prompt": 1, "position": 4}
        return {"of": "ssd", "with": "ar", "equal": equal, "expected": expected, "first_difference": where}

    assert verdict({"token_equality": []}).startswith("One run")
    assert "in all 1 comparisons" in verdict({"token_equality": [entry(equal=True)]})
    assert "DIFFER: ssd from ar at prompt 1, token 4" in verdict({"token_equality": [entry(equal=False)]})
    assert "may" in verdict({"token_equality": [entry(equal=False, expected=False)]})


def test_outputs_that_must_agree_and_do_not(here, toy, prompts, monkeypatch):
    monkeypatch.setattr("saguaro.bench.run.equal_everywhere", lambda record: False)
    done = here("bench", *toy, "--prompts", prompts, "--num-prompts", 1, "--max-tokens", 2, "--repeats", 1)
    assert done.status == 1
