import json

import pytest

from saguaro.figures.draw import draw_all
from saguaro.figures.series import Figure, Line, Panel

pytest.importorskip("matplotlib")
FIGURE = Figure(
    "figure-0",
    "One message",
    (
        Panel(
            "left", "batch", "tokens/s",
            (Line("a, paper", (1.0, 2.0), (3.0, 4.0), True), Line("a", (1.0,), (3.0,), False)),
        ),
        Panel("right", "F", "miss rate", (Line("b", (2.0, 4.0), (0.5, 0.25), False),), logarithmic=True),
    ),
)  # fmt: skip


def test_two_pictures_and_their_numbers(tmp_path):
    written = draw_all([FIGURE], tmp_path / "new")
    assert [path.name for path in written] == ["figure-0.svg", "figure-0.png", "figure-0.json"]
    text = written[0].read_text()
    for said in ("One message", "tokens/s", "miss rate", "a, paper"):
        assert said in text
    assert written[1].read_bytes().startswith(b"\x89PNG")
    assert json.loads(written[2].read_text())["panels"][0]["lines"][0]["y"] == [3.0, 4.0]
    assert draw_all([FIGURE], tmp_path / "again")[0].read_text() == text  # the same numbers, the same bytes
