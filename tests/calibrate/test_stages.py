"""Stages outlive a calibration that is stopped, and belong to it alone."""

import pytest

from saguaro.calibrate.stages import Stages


def never() -> None:
    raise AssertionError("it was done already")


def test_what_was_done_is_not_done_again(tmp_path):
    first = Stages(tmp_path / "stages", {"k": 4})
    assert first.get("times", lambda: {"1": 0.5}) == {"1": 0.5}
    with pytest.raises(KeyboardInterrupt):
        first.get("rounds-0.7", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    again = Stages(tmp_path / "stages", {"k": 4})
    assert again.get("times", never) == {"1": 0.5}
    assert again.done("times")
    assert not again.done("rounds-0.7")
    assert again.get("rounds-0.7", lambda: [1]) == [1]


def test_another_calibration_begins_anew(tmp_path):
    Stages(tmp_path / "stages", {"k": 4}).get("times", lambda: 1)
    assert Stages(tmp_path / "stages", {"k": 5}).get("times", lambda: 2) == 2


def test_a_damaged_file_is_made_again(tmp_path):
    stages = Stages(tmp_path / "stages", {})
    stages.get("times", lambda: 1)
    (tmp_path / "stages" / "times.json").write_text("{")
    assert stages.get("times", lambda: 3) == 3
    stages.drop()
    assert not (tmp_path / "stages").exists()
