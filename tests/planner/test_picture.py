import pytest

from saguaro.errors import ConfigError
from saguaro.planner.advice import plan
from saguaro.planner.picture import draw

pytest.importorskip("matplotlib")


def test_a_picture_names_axes_with_units(question, tmp_path):
    draw(plan(question), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for said in ("speed of one request (tokens/s)", "tokens/s of each device", "SSD on 4+1"):
        assert said in text


def test_other_suffixes_are_refused(question, tmp_path):
    with pytest.raises(ConfigError, match="one of .png"):
        draw(plan(question), tmp_path / "a.gif")
