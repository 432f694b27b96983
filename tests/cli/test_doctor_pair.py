"""`saguaro doctor` says what a pair is good for."""

import json

import pytest
from tests.lossless.test_draft_vocabulary import SOME, TARGET, written
from tests.lossless.test_eagle3 import IDS, head
from tests.lossless.test_eagle3 import TARGET as EAGLE_TARGET
from tests.models.text_pairs import BYTE_TARGET, merged

from saguaro.bench.sizes import sizes
from saguaro.cli.doctor_pair import draft_step_bytes, promise
from saguaro.config import EngineConfig
from saguaro.engine.resolve import resolve
from saguaro.models.checkpoint import open_checkpoint
from saguaro.models.pairing import SAME, Pairing

BIG = "toy:llama?layers=8&hidden=64&vocab=258"


@pytest.fixture
def report(here):
    def run(target, draft, *more):
        done = here("doctor", "--json", "--no-measure", "--target", target, "--draft", draft, *more)
        assert done.status == 0, done.err
        facts = {fact["name"]: fact for fact in json.loads(done.out)["pair"]}
        assert all(fact["source"] for fact in facts.values())
        return {name: fact["value"] for name, fact in facts.items()}

    return run


def test_same_ids_and_padding(report):
    assert report(BYTE_TARGET, BYTE_TARGET)["tokenizers"] == "the same"
    pair = report("toy:llama?vocab=48", "toy:llama?vocab=40")
    assert pair["tokenizers"] == "the same ids; the target has 8 rows more, which never match"
    assert pair["runs in"] == ["ar", "sd", "sd with tree", "ssd"]


def test_another_tokenizer(report, tmp_path):
    pair = report(BYTE_TARGET, merged(tmp_path), "--drafter", "text")
    assert pair["draft"] == "a language model with another tokenizer"
    assert pair["tokenizers"].startswith("different, so they meet in text; the tokenizers differ: id 0 is")
    assert 60 < pair["tokens that the target has too"] < 100
    assert pair["tokens that the draft says at once"] == 257
    assert 0.5 < pair["draft tokens for a target token"] < 1
    assert pair["runs in"] == ["ar", "sd", "sd with tree", "ssd"]
    assert pair["exact under"] == ["shared_noise", "rejection"]


def test_a_vocabulary_of_its_own(report, tmp_path):
    pair = report(TARGET, written(tmp_path, SOME))
    assert pair["draft"] == "a language model that can say 12 of 48 tokens"
    assert pair["tokenizers"] == "the same"


def test_an_eagle3_head(report, tmp_path):
    pair = report(EAGLE_TARGET, head(tmp_path, ids=IDS))
    assert pair["draft"] == "an EAGLE-3 head that can say 9 tokens and reads the inputs of the target's layers 2, 4, 5"
    assert pair["tokenizers"] == "the target's"
    assert pair["runs in"] == ["ar", "sd", "ssd"]


def test_what_it_may_bring(report):
    pair = report(BIG, BIG.replace("layers=8", "layers=1"))
    step, whole = (sizes(BIG.replace("layers=8", f"layers={n}"), "float32").streamed_bytes for n in (1, 8))
    assert pair["draft step / verification"] == pytest.approx(step / whole, abs=1e-3)
    assert pair["SD at most, acceptance 80%"] == pytest.approx(promise("sd", step / whole, 0.8)[1], abs=0.01)
    assert pair["worth trying"] == "sd (one device is enough) and ssd (with a device for the draft)"
    useless = report(BIG.replace("layers=8", "layers=1"), BIG)
    assert useless["worth trying"] == "ar: the draft reads too much for what it can bring"


def test_promises():
    """K = 1 by hand: 1.8 tokens in 1 + r, or in max(1, 2 r)."""
    assert promise("sd", 0.7, 0.8) == (1, pytest.approx(1.8 / 1.7))
    assert promise("ssd", 0.6, 0.8)[1] == pytest.approx(1.8 / 1.2)
    assert promise("ssd", 0.0, 0.5) == (8, pytest.approx(2 - 0.5**8))


def test_a_short_head_is_what_is_read():
    target = "toy:llama?vocab=60000&hidden=16&layers=1"
    plan = resolve(EngineConfig.from_options(target, target, mode="sd", dtype="int8"))
    number, how = draft_step_bytes(plan, open_checkpoint(target), Pairing(SAME))
    left_out = (60000 - 40960) * 16
    assert number == int((sizes(target, "int4").streamed - left_out) * 0.625)
    assert "40,960 of 60,000 rows" in how


def test_without_a_draft_there_is_no_pair(here):
    done = here("doctor", "--json", "--no-measure", "--target", BYTE_TARGET)
    assert not {fact["name"] for fact in json.loads(done.out)["pair"]} & {"draft", "runs in", "worth trying"}


def test_a_pair_that_cannot_be_is_one_sentence(here):
    done = here("doctor", "--target", "toy:llama?vocab=300", "--draft", "toy:llama?vocab=48", "--drafter", "text")
    assert done.status == 2
    assert "different tokenizers, and the draft's has no token for '!' alone" in done.err
    assert done.out == ""
    assert done.seconds < 2
