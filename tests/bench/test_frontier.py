"""The picture of a record: its lines, its files, and what is said when it cannot be drawn."""

import importlib.util
import sys

import pytest

from saguaro.bench.frontier import DASHES, MODE_STYLES, SUFFIXES, draw, frontier
from saguaro.errors import ConfigError

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="extra `figures`")


def a_run(mode, batch, one, repeat=0, **more):
    return {
        "mode": mode, "repeat": repeat, "temperature": 0.0, "batch": batch, "rate": None, "devices": "cpu:0",
        "equal_hardware": False, "verification": "shared_noise", "tokens_per_second": one,
        "total_tokens_per_second": one * batch, "tokens_per_second_per_device": one * batch / 2, **more,
    }  # fmt: skip


def a_record(*runs):
    config = {"target": "big", "draft": "small", "dataset": "d", "num_prompts": 2, "max_tokens": 8}
    return {"machine": {"cpu": "CPU", "cores": 2}, "config": config, "runs": list(runs)}


@pytest.fixture
def record():
    modes = [("ar", False), ("sd", False), ("ssd", False), ("sd", True)]
    return a_record(
        *(
            a_run(mode, batch, 40 / batch**0.5, repeat, equal_hardware=equal)
            for repeat in range(2)
            for batch in (8, 1, 2)
            for mode, equal in modes
        )
    )


def test_a_line_for_each_mode_and_placement(record):
    [(temperature, lines)] = frontier(record).items()
    assert temperature == 0.0
    assert [line.label for line in lines] == ["AR", "SD", "SSD", "SD, all devices"]
    x, y, labels = zip(*lines[0].points, strict=True)
    assert labels == ("1", "2", "8")
    assert x == pytest.approx([40, 40 / 2**0.5, 40 / 8**0.5])
    assert y == pytest.approx([40, 80 / 2**0.5, 320 / 8**0.5])


def test_per_device_and_rates():
    record = a_record(a_run("ar", 8, 10.0, rate=0.5), a_run("ar", 8, 5.0, rate=2.0))
    assert frontier(record, per_device=True)[0.0][0].points == [(10.0, 40.0, "0.5"), (5.0, 20.0, "2")]


def test_an_old_record_has_no_speed_for_each_device(record):
    for run in record["runs"]:
        del run["tokens_per_second_per_device"]
    assert frontier(record)
    with pytest.raises(ConfigError, match="make it again"):
        frontier(record, per_device=True)


def test_modes_differ_in_colour_and_in_marker():
    assert len({colour for colour, _ in MODE_STYLES.values()}) == len(MODE_STYLES)
    assert len({marker for _, marker in MODE_STYLES.values()}) == len(MODE_STYLES)
    assert len(set(DASHES)) == len(DASHES)


@needs_matplotlib
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_record_gives_the_same_file(record, tmp_path, suffix):
    pictures = []
    for name in ("a", "b"):
        path = tmp_path / (name + suffix)
        draw(record, path)
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1]
    assert len(pictures[0]) > 5_000


@needs_matplotlib
def test_the_picture_says_what_it_shows(record, tmp_path):
    """Text of an SVG stands in its comments, glyph by glyph and once as a whole."""
    record["runs"] += [a_run("ar", 4, 7.0, temperature=1.0)]
    draw(record, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for words in ("speed of one request, decoding (tokens/s)", "speed of all requests (tokens/s)", "SD, all devices",
                  "requests at once", "temperature 1", "big with small; 2 prompts of d × 8 tokens"):  # fmt: skip
        assert words in text, words
    assert "lowest" not in text
    for colour, _ in MODE_STYLES.values():
        assert colour.lower() in text
    draw(record, tmp_path / "b.svg", per_device=True, title="A title")
    assert "÷ devices" in (tmp_path / "b.svg").read_text()
    assert "A title" in (tmp_path / "b.svg").read_text()


def test_a_missing_library_is_named(record, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"needs matplotlib.*pip install 'saguaro-llm\[figures\]'"):
        draw(record, tmp_path / "a.png")


@pytest.mark.parametrize("name", ["a", "a.jpeg", "a.json"])
def test_other_suffixes_are_refused(record, tmp_path, name):
    with pytest.raises(ConfigError, match=r"one of .png, .svg, .pdf"):
        draw(record, tmp_path / name)
