"""`calibrate`: a small run of the command, what it leaves, and what it refuses."""

import pytest
from tests.cli.conftest import TOY

from saguaro.profile import load


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
    return path


def test_a_small_run(here, prompts, tmp_path, monkeypatch):
    monkeypatch.setattr("saguaro.engine.interface.MEASURE_SECONDS", 0.0)
    out = tmp_path / "pair.json"
    sizes = ("--num-prompts", 2, "--max-tokens", 16, "--max-lookahead", 2, "--max-model-len", 256, "--seconds", 0)
    sizes += ("--temperatures", "0")
    done = here("calibrate", *TOY, "--prompts", prompts, *sizes, "--out", out)
    assert done.status == 0, done.err
    assert f"--profile {out}" in done.out
    assert "rounds at temperature 0" in done.err
    profile = load(out)
    assert profile.prompts["count"] == 2
    assert {path.name for path in tmp_path.iterdir()} == {"pair.json", "prompts.jsonl"}  # stages are gone
    used = here("generate", *TOY, "--profile", out, "--mode", "ssd", "--prompt", "one", "--max-tokens", "4", "--json")
    assert used.status == 0, used.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "toy:llama"), "give --draft"),
        ((*TOY, "--out", "/no/such/folder/p.json"), "make it first"),
        ((*TOY, "--max-lookahead", "9"), "1 ... 8"),
        ((*TOY, "--temperatures", "0,0"), "given twice"),
        ((*TOY, "--max-tokens", "2"), "8 tokens"),
        ((*TOY, "--seconds", "-1"), "0 or more"),
        ((*TOY, "--num-prompts", "3"), "fewer than the 3"),
        ((*TOY, "--budget", "3"), "unknown option '--budget'"),
        (("--target", "toy:llama", "--draft", "absent"), "absent"),
    ],
)
def test_refusals(here, prompts, tmp_path, arguments, words):
    given = ("--prompts", prompts, "--num-prompts", 2, "--out", tmp_path / "p.json", *arguments)
    done = here("calibrate", *given)
    assert (done.status, words in done.err) == (2, True), done.err
