"""`plan`: an answer without torch, without models and without the hardware."""

import json
import subprocess
import sys

import pytest

from saguaro.profile import Curves, Pair, Profile, save

PAIR = ("--target", "llama-3.1-70b", "--draft", "llama-3.2-1b", "--placement", "4+1")


def test_the_answer_needs_no_torch():
    code = (
        "import sys\nfrom saguaro.cli.main import main\n"
        f"status = main(['plan', *{PAIR!r}, '--json'])\n"
        "heavy = [name for name in ('torch', 'numpy', 'matplotlib', 'transformers') if name in sys.modules]\n"
        "print(status, heavy, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "0 []"
    found = json.loads(done.stdout)
    by_mode = {row["mode"]: row["tokens_per_second"] for row in found["rows"] if row["group"] == "asked"}
    assert by_mode["ar"] < by_mode["sd"] < by_mode["ssd"]


def test_the_table_says_what_follows(here):
    done = here("plan", *PAIR)
    assert done.status == 0, done.err
    for said in ("SSD on 4+1", "equal devices", "from a hit rate of", "a tenth better", "H100"):
        assert said in done.out


def test_a_config_file_and_a_default_placement(here, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3, "intermediate_size": 96,
                "vocab_size": 500,
            }
        )
    )  # fmt: skip
    done = here("plan", "--target", tmp_path, "--hardware", "l4", "--json")
    assert json.loads(done.out)["rows"][0]["placement"] == "1"


def test_a_picture(here, tmp_path):
    pytest.importorskip("matplotlib")
    done = here("plan", *PAIR, "--plot", tmp_path / "plan.svg")
    assert done.status == 0, done.err
    assert (tmp_path / "plan.svg").read_text().startswith("<?xml")


def test_a_profile_replaces_what_is_assumed(here, tmp_path):
    """Acceptance and step times of a calibration: AR is then 1 over the measured verification."""
    curve = (0.0, 0.6, 0.7, 0.8)
    own = Curves(0.9, (0.9, 0.9), curve, (0.0, 0.9, 0.95))
    times = {
        "verify_alone": {1: 0.05, 8: 0.06}, "verify_together": {1: 0.06, 8: 0.07},
        "step_alone": {1: 0.01, 8: 0.012}, "step_together": {1: 0.012, 8: 0.015},
    }  # fmt: skip
    pair = Pair("t", "d", "1", "2", "int8", "int4")
    save(
        Profile(pair, ("cpu:0", "cpu:1"), own, Curves(0.0, (), curve, curve), 1.0, 0.02, times, ()), tmp_path / "p.json"
    )
    asked = (
        "plan",
        "--target",
        "qwen2.5-1.5b",
        "--draft",
        "qwen2.5-0.5b",
        "--hardware",
        "cpu-core",
        "--placement",
        "1+1",
    )
    done = here(*asked, "--profile", tmp_path / "p.json", "--measured-times", "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["rows"][0]["tokens_per_second"] == pytest.approx(20)
    assert "p.json" in found["laws"]
    assert [row["group"] for row in found["rows"]] == ["asked"] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required: --target"),
        (("--target", "llama-3.1-7b"), "did you mean 'llama-3.1-70b'"),
        ((*PAIR, "--hardware", "h1000"), "did you mean 'h100'"),
        ((*PAIR[:4], "--placement", "4-1"), "such as 4+1"),
        ((*PAIR, "--acceptance", "1.5"), "0 ... 1"),
        ((*PAIR, "--dtype", "bfloat"), "did you mean 'bfloat16'"),
        ((*PAIR, "--measured-times"), "give --profile"),
        ((*PAIR, "--profile", "/no/such.json"), "does not exist"),
        ((*PAIR, "--plot", "/no/such/folder/a.png"), "make it first"),
        (("--target", "llama-3.1-70b", "--hardware", "cpu-core"), "does not fit on 16"),
    ],
)
def test_bad_input_is_one_sentence(here, arguments, message):
    done = here("plan", *arguments)
    assert done.status == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
