"""`saguaro trace` and `--round-log`: files that can be read, and the sentence where they cannot be written."""

import json

FLAGS = ("--temperature", "0", "--ignore-eos", "--max-tokens", "16", "--prompt", "hello")


def test_a_trace_and_its_summary(here, toy, tmp_path):
    out = tmp_path / "t.json"
    done = here("trace", *toy, *FLAGS, "--mode", "ssd", "--out", out, "--json")
    assert done.status == 0, done.err
    summary = json.loads(done.out)
    events = json.loads(out.read_text())["traceEvents"]
    assert (summary["events"], summary["tokens"], summary["mode"]) == (len(events), 16, "ssd")
    assert set(summary["processes"]) == {"target", "draft"}
    for process in summary["processes"].values():
        assert abs(sum(kind["share"] for kind in process["kinds"].values()) + process["rest"] - 1) < 1e-6
    names = {(event["pid"], event["name"]) for event in events if event["ph"] == "X"}
    assert {(1, "prefill"), (1, "verify"), (1, "draw"), (1, "look-up"), (2, "prefill"), (2, "news")} <= names
    assert any(event["ph"] == "i" and event["name"].startswith(("hit", "miss: ")) for event in events)


def test_the_summary_for_people(here, toy, tmp_path):
    done = here("trace", *toy, *FLAGS, "--mode", "ar", "--out", tmp_path / "t.json")
    assert done.status == 0, done.err
    assert "ui.perfetto.dev" in done.out
    assert "verify" in done.out
    assert "draft:" not in done.out


def test_places_that_are_no_place_for_a_trace(here, toy, tmp_path):
    for place in (tmp_path, tmp_path / "absent" / "t.json"):
        done = here("trace", *toy, *FLAGS, "--out", place)
        assert done.status == 2
        assert "is no place for a file" in done.err


def test_a_round_log(here, toy, tmp_path):
    log = tmp_path / "rounds.jsonl"
    done = here("generate", *toy, *FLAGS, "--json", "--round-log", log)
    metrics = json.loads(done.out)["metrics"]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == metrics["rounds"]
    assert [sum(line["hit"] for line in lines), sum(line["accepted"] for line in lines)] == [
        metrics["hits"], metrics["accepted"],
    ]  # fmt: skip
    refused = here("generate", *toy, *FLAGS, "--round-log", tmp_path)
    assert refused.status == 2
    assert refused.err == f"saguaro: round_log {tmp_path} is a folder; name a file.\n"
