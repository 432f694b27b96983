"""Numbers behind the figures: the published ones as they are, the simulated ones where they must be."""

import json

import pytest

from saguaro.figures import series
from saguaro.figures.saguaro_c import SCALES, trade_off
from saguaro.simulate.paper import fit
from saguaro.simulate.published import FIGURE_6, LLAMA, MISSES_PRIMARY

FEW = 200


@pytest.fixture(scope="module")
def fitted():
    return fit(LLAMA)


def test_figure_3_shows_the_points_and_the_fit(fitted):
    left, middle, right = series.figure_3(fitted, FEW).panels
    assert left.lines[0].y == MISSES_PRIMARY[0.0]
    assert all(a > b for a, b in zip(left.lines[1].y, left.lines[1].y[1:], strict=False))
    assert right.lines[0].y[0] < 1 - left.lines[0].y[0]  # rounds after a backup hit less
    assert middle.logarithmic
    assert not right.logarithmic


@pytest.mark.parametrize("make", [series.figure_4, series.figure_6, series.figure_7])
def test_published_and_simulated_stand_side_by_side(fitted, make):
    figure = make(fitted, FEW)
    for panel in figure.panels:
        assert {line.hollow for line in panel.lines} == {True, False}
        assert all(len(line.x) == len(line.y) > 1 for line in panel.lines)
        assert panel.y
        assert panel.x or panel.ticks
    json.dumps(figure.plain())
    if make is series.figure_6:
        lines = {line.label: line.y for line in figure.panels[0].lines}
        assert lines["neural, paper"] == FIGURE_6["neural"]
        assert lines["neural, F = 1"][0] > lines["neural, F = 1"][-1]


def test_figure_5_trades_one_for_the_other():
    points = trade_off()
    assert len(points) == len(SCALES)
    assert points[0][1] == pytest.approx(0.80, abs=1e-6)
    assert all(0 < hit <= 1 for hit, _ in points)
    assert points[-1][0] > points[0][0] + 0.1
    assert points[-1][1] < points[0][1] - 0.1
