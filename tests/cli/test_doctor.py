"""Every number of `doctor` has its source; formulas are checked against a model whose sizes are known."""

import json

import pytest

from saguaro.bench.sizes import sizes
from saguaro.cli import doctor_facts
from saguaro.cli.doctor_facts import memory_needed
from saguaro.config import EngineConfig
from saguaro.engine.resolve import resolve

SMALL = "toy:llama?layers=2&hidden=64&heads=4&kv_heads=2&ffn=128&vocab=512"


@pytest.fixture
def report(here):
    def run(*arguments):
        done = here("doctor", "--json", "--no-measure", *arguments)
        assert done.status == 0, done.err
        return {section: {fact["name"]: fact for fact in facts} for section, facts in json.loads(done.out).items()}

    return run


def test_every_fact_has_a_source(report):
    for facts in report("--target", SMALL, "--draft", SMALL).values():
        assert all(fact["source"] for fact in facts.values())


def test_machine(report):
    sections = report()
    assert "pair" not in sections
    assert sections["machine"]["cores"]["value"] >= 1
    assert sections["machine"]["memory"]["value"] >= sections["machine"]["memory available"]["value"] > 0


def test_pair(report):
    pair = report("--target", SMALL, "--draft", SMALL, "--dtype", "bfloat16", "--lookahead", "3")["pair"]
    assert (pair["mode"]["value"], pair["tokenizers"]["value"], pair["fits"]["value"]) == ("ssd", "the same", True)
    assert (pair["dtype"]["source"], pair["lookahead"]["source"]) == ("option", "option")
    assert pair["budget"]["source"] == "default for this machine"
    assert pair["target weights read a pass"]["value"] == pytest.approx(sizes(SMALL, "bfloat16").streamed_bytes / 1e9)
    assert "target keys and values" in pair


def test_pair_that_does_not_fit(here, monkeypatch):
    plan = resolve(EngineConfig(SMALL))
    monkeypatch.setattr(doctor_facts.this, "memory", lambda: {"total": 1, "available": memory_needed(plan) - 1})
    assert here("doctor", "--no-measure", "--target", SMALL).status == 1
    monkeypatch.setattr(doctor_facts.this, "memory", lambda: {"total": 1, "available": memory_needed(plan)})
    assert here("doctor", "--no-measure", "--target", SMALL).status == 0


def test_for_people(here):
    done = here("doctor", "--no-measure", "--target", SMALL)
    assert "how it is known" in done.out
    assert "C compiler" in done.out
    assert here("doctor", "--draft", SMALL).status == 2
