"""Figures of records: the numbers are the records', and what a record lacks is said."""

import json
import shutil

import pytest

from saguaro.figures.measured import RECIPES, SETS, measured

FACTS = {
    "machine": {"cpu": "x", "cores": 2},
    "versions": {},
    "table": {"columns": [], "rows": []},
    "note": "a with b; c",
}


def curve(rounds, misses):
    """Hits of F = 0 ... 16 with misses .01 x `misses` x F^-.5."""
    return {
        "rounds": rounds,
        "hits": [0.0, *(1 - 0.01 * misses * guesses**-0.5 for guesses in range(1, 17))],
        "fit": None,
    }


@pytest.fixture
def folder(tmp_path):
    curves = {"after_rejection": curve(2000, 60), "after_all": curve(6000, 20), "after_miss": curve(8000, 50)}
    rows = [[c, f, 0.8 + 0.1 * c, 0.9 - 0.2 * c, 0.9] for c in (0.1, 1.0) for f in (1, 3)]
    shared = {"acceptance": 0.88, "after_rejection": [0.6, 0.85], "after_all": [0.9, 0.95]}
    record = {
        "temperatures": [{"temperature": 1.0, "curves": curves}],
        "laws": {"1": {"rows": rows, "fan_outs": [1, 3], "shared_noise": shared}},
    }
    (tmp_path / "curves.json").write_text(json.dumps(FACTS | record))
    lanes = [
        {"lane": lane, "batch": batch, "total_tokens_per_second": 10.0 * batch, "ratio": 1.5}
        for lane in ("AR", "SD", "SSD, none", "SSD, random", "SSD, neural", "SSD, adaptive", "auto")
        for batch in (1, 2)
    ]
    (tmp_path / "fallbacks.json").write_text(json.dumps(FACTS | {"summary": lanes}))
    return tmp_path


def test_what_is_not_there_is_named(folder):
    figures, missing = measured(folder)
    assert [figure.name for figure in figures] == ["measured-3", "measured-5", "measured-6"]
    assert len(missing) == 2
    assert "measured-4 needs the record ablation and policies; benchmarks/ablation.py" in missing[0]
    assert "measured-7 needs the record qwen-humaneval; " in missing[1]


def test_curves_are_those_of_the_record(folder):
    three, five, six = measured(folder)[0]
    left, middle, right = three.panels
    points, law = left.lines
    assert points.y[0] == pytest.approx((2000 * 0.6 + 6000 * 0.2) / 8000)
    assert law.label == "T = 1, 0.30 F^-0.50"
    assert law.y == pytest.approx(points.y, abs=1e-3)
    assert middle.lines[0].y[2] == pytest.approx(0.25)
    assert right.lines[0].y[0] == pytest.approx(0.5 / (1 - 0.7 + 0.5))  # p_b / (1 - p_p + p_b)
    line, shared = five.panels[0].lines
    assert (line.x, line.y, line.notes) == ((0.7, pytest.approx(0.88)), pytest.approx((0.9, 0.81)), ("1", "0.1"))
    assert (shared.x, shared.y) == ((0.85,), (0.88,))
    speeds = {line.label: line.y for line in six.panels[0].lines}
    assert speeds["neural"] == (10.0, 10.0)
    assert "measured: a with b; x, 2 cores" in six.note


def test_every_figure_can_be_made_of_the_records_of_this_project(root_results):
    figures, missing = measured(root_results)
    assert len(figures) + len(missing) == len(RECIPES)
    assert {figure.name for figure in figures} >= {"measured-4", "measured-6", "measured-7"}
    for figure in figures:
        for panel in figure.panels:
            assert panel.y
            assert panel.x
            assert panel.lines
            for line in panel.lines:
                assert len(line.x) == len(line.y) > 0, (figure.name, line.label)
                bars = zip(line.low, line.y, line.high, strict=False)
                assert all(low <= y <= high for low, y, high in bars)
        json.dumps(figure.plain())


def test_figure_7_takes_a_record_of_each_prompt_set(root_results, tmp_path):
    shutil.copy(root_results / "fallbacks.json", tmp_path)
    for name in SETS:
        shutil.copy(root_results / "qwen-humaneval.json", tmp_path / f"qwen-{name}.json")
    [seven] = [figure for figure in measured(tmp_path)[0] if figure.name == "measured-7"]
    left = seven.panels[0]
    assert left.ticks == SETS
    assert {line.label: line.x for line in left.lines} == dict.fromkeys(("AR", "SD", "SSD"), (0.0, 1.0, 2.0))


@pytest.fixture
def root_results(request):
    return request.config.rootpath / "benchmarks" / "results"
