"""docs/metrics.md names every figure as the code does, and no other."""

import re
from dataclasses import fields

import pytest

from saguaro.engine.activity import Activity
from saguaro.engine.misses import Lookup
from saguaro.engine.round_log import KINDS, fields_of
from saguaro.engine.sequence import RoundReport
from saguaro.protocol.messages import SOURCES
from saguaro.request import MISS_REASONS, RATES, RequestMetrics

TITLES = {
    "counter": {f.name for f in fields(RequestMetrics)},
    "rate": set(RATES),
    "reason": set(MISS_REASONS),
}


@pytest.fixture(scope="module")
def tables(root):
    """The names in the first column of each table, by the title of that column; `field` has two tables."""
    found: dict[str, list[set[str]]] = {}
    for block in re.findall(r"(?:^\|.*\n)+", (root / "docs/metrics.md").read_text("utf-8"), re.MULTILINE):
        head, _, *rows = block.splitlines()
        names = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
        assert len(names) == len(set(names))
        found.setdefault(head.split("|")[1].strip(), []).append(set(names))
    return found


@pytest.mark.parametrize("title", TITLES)
def test_counters_rates_and_reasons(tables, title):
    assert tables[title] == [TITLES[title]]


def test_fields_of_the_draft_and_of_a_line(tables):
    draft, line = tables["field"]
    rows = {"pages", "pages_used", "pages_kept", "rows", "unspeculated"}
    assert draft == rows | set(Activity().summary())
    report = RoundReport([1], 0, 0, "none", 0, 0.0, 0.0, 0.0, 0.0, lookup=Lookup())
    assert line == {"engine", *fields_of(1, 0, report, looks_up=True)}


def test_sources_and_waits_are_named(root):
    text = (root / "docs/metrics.md").read_text("utf-8")
    assert all(f"`{name}`" in text for name in [*KINDS, *(set(SOURCES) - {"pending"})])
