"""Closed forms against their parts, and against Algorithm 1 on the virtual clock."""

from dataclasses import replace

import pytest

from saguaro.planner.advice import simulated
from saguaro.planner.predict import FORMULAS, Candidate, predict, spent
from saguaro.planner.question import Traffic
from saguaro.simulate.drafting import ASK
from saguaro.theory.acceptance import expected_tokens

AR, SD = Candidate("ar", 4, 0, 4), Candidate("sd", 4, 0, 4, 6)
SSD = Candidate("ssd", 4, 1, 5, 7, 24, "neural")


def test_ar_and_sd_by_hand(question):
    costs = question.costs(4, 0)
    assert predict(question, AR).tokens_per_second == pytest.approx(1 / costs.verify(1))
    round_ = costs.verify(7) + 6 * costs.draft(1)
    assert predict(question, SD).tokens_per_second == pytest.approx(expected_tokens([0.87] * 6) / round_)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(
    "candidate", [AR, SD, SSD, replace(SSD, fallback="none")], ids=lambda c: f"{c.mode}-{c.fallback}"
)
def test_against_the_virtual_clock(question, candidate, batch):
    """The closed form has whole proposals; the waiting rule of the engine may only gain."""
    asked = replace(question, traffic=Traffic(batch=batch))
    closed = predict(asked, candidate).tokens_per_second
    assert closed == pytest.approx(simulated(asked, candidate, handover=ASK), rel=0.03)
    assert simulated(asked, candidate) > 0.97 * closed


def test_derived_numbers(question):
    found = predict(replace(question, traffic=Traffic(batch=4)), SSD)
    plain = found.plain()
    assert plain["total_tokens_per_second"] == pytest.approx(4 * found.tokens_per_second)
    assert plain["tokens_per_second_per_device"] == pytest.approx(4 * found.tokens_per_second / 5)
    assert plain["dollars_per_million"] == pytest.approx(5 * 3.0 / (3600 * 4 * found.tokens_per_second) * 1e6)
    assert plain["request_seconds"] == pytest.approx(found.first_token + 511 / found.tokens_per_second)


def test_every_number_names_its_formula(question):
    numbers = {name for name, value in predict(question, SSD).plain().items() if isinstance(value, float)}
    assert numbers <= set(FORMULAS)


def test_formulas_name_what_exists():
    import importlib
    import re

    texts = [text for each in FORMULAS.values() for text in (each.values() if isinstance(each, dict) else [each])]
    named = [name for text in texts for name in re.findall(r"(?:theory|simulate)\.[\w.]+", text)]
    assert len(named) > 8
    for name in named:
        module, *attributes = name.split(".")[1:]
        found = importlib.import_module(f"saguaro.{name.split('.')[0]}.{module}")
        for attribute in attributes:
            found = getattr(found, attribute)


def test_placements_are_named():
    assert [each.placement for each in (SD, SSD, replace(SD, devices=5))] == ["4", "4+1", "4 of 5"]


def test_appendix_c(question):
    assert spent(question, SSD)["draft_tokens_a_round"] == 7 * 24 + 1
    assert spent(question, SD)["draft_tokens_a_round"] == 6
