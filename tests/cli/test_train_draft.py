"""`train-draft`: a small run of the command, its second start, and what it refuses."""

import json

import pytest

TARGET = "toy:llama?seed=0&vocab=300&layers=2&hidden=32&ffn=64"
SMALL = ("--max-tokens", 8, "--held-out", 2, "--context", 32, "--steps", 2)


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"prompt {i}"}) + "\n" for i in range(8)))
    return path


def test_a_small_run_and_what_it_says(here, prompts, tmp_path):
    out, text = tmp_path / "draft", tmp_path / "own.txt"
    text.write_text("some text of one's own, not continued")
    given = ("--target", TARGET, "--prompts", prompts, *SMALL, "--text", text, "--out", out)
    done = here("train-draft", *given)
    assert done.status == 0, done.err
    assert "acceptance by position" in done.out
    assert f"--draft {out}" in done.out
    assert "step 2" in done.err
    again = here("train-draft", *given, "--json")  # nothing is left to do but to write it again
    assert again.status == 0, again.err
    record = json.loads(again.out)
    assert record["training"]["steps"] == 2
    assert list(record["data"]["prompts"].values()) == [8]
    assert record == json.loads((out / "training.json").read_text("utf-8"))
    other = here("train-draft", *given, "--lr", "0.1")
    assert (other.status, "--retrain" in other.err) == (2, True)


def test_a_stop_says_how_to_go_on(here, prompts, tmp_path, monkeypatch):
    given = ("--target", TARGET, "--prompts", prompts, *SMALL, "--out", tmp_path / "draft")
    monkeypatch.setattr("saguaro.training.run.distil", lambda asked, view, should_stop: None)
    done = here("train-draft", *given)
    assert done.status == 130
    assert "the same command goes on there" in done.err


def test_ctrl_c_is_noted_once_and_interrupts_the_second_time():
    import signal

    from saguaro.cli.train_draft import _Stop

    before = signal.getsignal(signal.SIGINT)
    with _Stop() as stop:
        stop.listen()
        signal.raise_signal(signal.SIGINT)
        assert stop.wanted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "absent"), "absent"),
        (("--layers", "0,2"), "no layer 2"),
        (("--layers", "0,-1"), "below 0"),
        (("--layers", "all"), "not a whole number"),
        (("--held-out", "8"), "leave none to train on"),
        (("--from", "toy:llama?vocab=48"), "start from"),
        (("--from", "toy:markov?vocab=300"), "--from"),
        (("--draft-vocab", "300"), "no reduction"),
        (("--train", "embedding"), "trained must be one of"),
        (("--temperatures", "0,0"), "twice"),
        (("--epochs", "2"), "not both"),
        (("--minutes", "-1"), "above 0"),
        (("--train-device", "cpu:99"), "does not exist"),
        (("--states", "1"), "--keep-states"),
        (("--stored", "int8", "--train", "all"), "whole and not learn"),
        (("--head-rows", "5", "--train", "head"), "does not learn"),
        (("--lookahead", "3"), "unknown option '--lookahead'"),
        (("--out", "/no/such/folder/draft"), "make it first"),
        (("--prompts", "/no/such/file"), "does not exist"),
        (("--text", "/no/such/file"), "/no/such/file"),
    ],
)
def test_refusals(here, prompts, tmp_path, arguments, words):
    given = ("--target", TARGET, "--prompts", prompts, *SMALL, "--out", tmp_path / "d", *arguments)
    done = here("train-draft", *given)
    assert (done.status, words in done.err) == (2, True), done.err
    assert not list(tmp_path.glob("d*"))
