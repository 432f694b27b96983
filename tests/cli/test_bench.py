"""`bench` end to end with real tiny models in one process."""

import json

import pytest

from saguaro.cli.bench_view import progress, verdict, warnings

FIELDS = {
    "mode", "repeat", "dataset", "batch", "temperature", "tokens_per_second", "acceptance_length", "acceptance_rate",
    "hit_rate", "depth", "verify_ms", "draw_ms", "draft_round_ms", "target_wait_ms", "ttft_ms",
    "prefill_tokens_per_second", "itl_ms_p50", "itl_ms_p99",
    "output_tokens", "token_ids_sha256", "devices", "lookahead", "budget", "fan_out", "fallback", "verification",
    "dtype", "bound", "rate", "num_requests", "total_tokens_per_second", "tokens_per_second_per_device", "num_devices",
    "ttft_ms_p50", "ttft_ms_p99", "queue_ms_p50", "queue_ms_p99", "gap_ms_p50", "gap_ms_p99", "offered_rate",
    "achieved_rate", "kept_up", "backlog",
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
    # The end is ignored; two rows have at least eight requests.
    assert {(run["batch"], run["output_tokens"]) for run in record["runs"]} == {(1, 16), (2, 64)}
    for run in record["runs"]:
        assert (run["hit_rate"] is None) == (run["mode"] != "ssd")
    hashes = {(run["temperature"], run["batch"], run["token_ids_sha256"]) for run in record["runs"]}
    assert len(hashes) == 4  # one output a temperature and number of requests, whatever mode and repeat
    assert "Outputs are equal, token for token, in all 22 comparisons." in done.out
    assert "Closed loop" in done.out
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


def test_the_same_requests_have_the_same_hash_in_every_batch(here, toy, prompts, tmp_path):
    out = tmp_path / "out.json"
    flags = ("--num-requests", 4, "--max-tokens", 4, "--repeats", 1, "--batch", "1,2,4", "--json", out)
    assert here("bench", *toy, "--prompts", prompts, "--num-prompts", 3, *flags).status == 0
    runs = json.loads(out.read_text())["runs"]
    assert len(runs) == 9
    assert len({run["token_ids_sha256"] for run in runs}) == 1
    assert {run["num_requests"] for run in runs} == {4}


@pytest.mark.processes
def test_an_open_loop_over_processes(here, prompts, tmp_path):
    out = tmp_path / "out.json"
    pair = ("--target", "toy:llama?seed=0", "--draft", "toy:llama?seed=0&noise=0.03", "--lookahead", 3, "--budget", 6)
    flags = (
        "--modes",
        "ar,ssd",
        "--rate",
        "50,100",
        "--num-requests",
        6,
        "--max-tokens",
        6,
        "--repeats",
        1,
        "--max-batch",
        2,
    )
    done = here("bench", *pair, "--prompts", prompts, "--num-prompts", 3, *flags, "--json", out)
    assert done.status == 0, done.err
    record = json.loads(out.read_text())
    assert [(run["rate"], run["mode"]) for run in record["runs"]] == [
        (rate, mode) for rate in (50.0, 100.0) for mode in ("ar", "ssd")
    ]
    assert all(run.keys() >= FIELDS for run in record["runs"])
    assert {(run["batch"], run["output_tokens"]) for run in record["runs"]} == {(2, 36)}
    assert len({run["token_ids_sha256"] for run in record["runs"]}) == 1
    assert "Outputs are equal, token for token, in all 3 comparisons." in done.out
    assert "Open loop" in done.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--rate", "0"), "a second above 0"),
        (("--rate", "fast"), "'fast' is not a number"),
        (("--rate", "1", "--batch", "2"), "not both"),
        (("--batch", "0"), "0 is less than 1"),
        (("--batch", "1,,2"), "has an empty part"),
        (("--batch", "4", "--max-batch", "2"), "batch 4 is above max_batch 2"),
        (("--batch", "2000"), "max_batch must be a whole number in 1 ... 1024"),
        (("--batch", "4", "--num-requests", "3"), "3 requests cannot keep 4 running"),
        (("--seconds", "3"), "belongs to an open loop"),
        (("--rate", "1", "--seconds", "3", "--num-requests", "3"), "not both"),
        (("--rate", "0.001", "--seconds", "0.01"), "no request arrives"),
        (("--rte", "1"), "did you mean '--rate'"),
    ],
)
def test_impossible_loads_are_refused_in_a_sentence(here, toy, prompts, flags, message):
    done = here("bench", *toy, "--prompts", prompts, "--num-prompts", 2, *flags)
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_nowhere_to_write(here, toy, prompts):
    done = here("bench", *toy, "--prompts", prompts, "--num-prompts", 1, "--json", "/no/such/folder/out.json")
    assert (done.status, "make it first" in done.err) == (2, True)


def test_placements_exclude_each_other(here, toy, prompts):
    done = here("bench", *toy, "--prompts", prompts, "--paper-placement", "--equal-hardware")
    assert (done.status, "not allowed with" in done.err) == (2, True)


def test_a_line_for_each_run():
    run = {
        "repeat": 0, "temperature": 0.0, "batch": 8, "rate": 2.5, "mode": "ssd", "devices": "cpu:0 + cpu:1",
        "hit_rate": 0.75, "acceptance_length": 3.0, "tokens_per_second": 10.0, "total_tokens_per_second": 60.0,
        "kept_up": False,
    }  # fmt: skip
    assert progress(run, 3) == (
        "repeat 1/3, T 0, 2.5 requests/s: ssd on cpu:0 + cpu:1: 10.0 tokens/s, 60.0 in all, 3.00 tokens a round, "
        "hit rate 0.75, DID NOT KEEP UP"
    )
    alone = {**run, "rate": None, "batch": 1, "hit_rate": None, "kept_up": None}
    assert "batch 1: ssd on cpu:0 + cpu:1: 10.0 tokens/s, 3.00 tokens a round" in progress(alone, 3)


def test_warnings_of_engines_are_shown():
    engines = {"ar": {}, "sd": {"warnings": []}, "ssd": {"warnings": ["the draft process ended."]}}
    assert warnings({"engines": engines}) == ["Warning of ssd: the draft process ended."]


def test_verdict():
    def entry(*, equal, expected=True):
        where = None if equal else {"prompt": 1, "position": 4}
        return {"of": "ssd", "with": "ar", "equal": equal, "expected": expected, "first_difference": where}

    assert verdict({"token_equality": []}).startswith("One run")
    assert "in all 1 comparisons" in verdict({"token_equality": [entry(equal=True)]})
    assert "DIFFER: ssd from ar at prompt 1, token 4" in verdict({"token_equality": [entry(equal=False)]})
    assert "may" in verdict({"token_equality": [entry(equal=False, expected=False)]})


def test_outputs_that_must_agree_and_do_not(here, toy, prompts, monkeypatch):
    monkeypatch.setattr("saguaro.bench.equality.equal_everywhere", lambda record: False)
    done = here("bench", *toy, "--prompts", prompts, "--num-prompts", 1, "--max-tokens", 2, "--repeats", 1)
    assert done.status == 1
