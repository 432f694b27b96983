"""Lanes: the paper's placement, equal hardware, and refusals."""

import pytest

from saguaro import device
from saguaro.bench.settings import BenchSettings, lanes, union
from saguaro.errors import ConfigError


@pytest.fixture
def cores(monkeypatch):
    """A machine with eight cores, of which this process may use six with other numbers."""
    numbers = [2, 3, 4, 5, 6, 7]
    monkeypatch.setattr(device, "allowed_cores", lambda: numbers)
    monkeypatch.setattr("saguaro.bench.settings.allowed_cores", lambda: numbers)


def made(**options):
    return BenchSettings(**{"engine": {"target": "t", "draft": "d"}, "prompts": ["a"], **options})


def test_paper_placement(cores):
    engine = {"target": "t", "draft": "d", "target_device": "cpu:0", "draft_device": "cpu:1"}
    ar, sd, ssd = lanes(made(engine=engine, batches=(1, 12)))
    assert (ar.options["draft"], ar.options["target_device"], ar.devices) == (None, "cpu:0", "cpu:0")
    assert (sd.options["draft_device"], sd.devices) == ("cpu:0", "cpu:0")
    assert (ssd.options["draft_device"], ssd.devices) == ("cpu:1", "cpu:0 + cpu:1")
    assert all(lane.options["max_batch"] == 12 for lane in (ar, sd, ssd))
    assert [lane.equal_hardware for lane in (ar, sd, ssd)] == [False] * 3


def test_auto_devices_are_those_of_ssd(cores):
    ar, _, ssd = lanes(made())
    assert (ar.devices, ssd.devices) == ("cpu:0-4", "cpu:0-4 + cpu:5")


def test_equal_hardware_gives_everyone_everything(cores):
    engine = {"target": "t", "draft": "d", "target_device": "cpu:0-2", "draft_device": "cpu:3"}
    found = lanes(made(engine=engine, equal_hardware=True))
    assert [(lane.mode, lane.devices) for lane in found[3:]] == [("ar", "cpu:0-3"), ("sd", "cpu:0-3")]
    assert len({lane.name for lane in found}) == 5


def test_union(cores):
    assert union("cpu:1", "cpu:0") == "cpu:0-1"
    assert union("cpu:2", "cpu:2") == "cpu:2"
    with pytest.raises(ConfigError, match="neighbouring"):
        union("cpu:0", "cpu:2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modes": ("ar", "sdd")}, "unknown mode 'sdd'"),
        ({"modes": ("ar", "ar")}, "each mode once"),
        ({"modes": ()}, "at least one"),
        ({"engine": {"target": "t"}}, "need a draft"),
        ({"prompts": []}, "at least one prompt"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ConfigError, match=message):
        made(**options)


def test_options_are_checked_as_a_configuration(cores):
    with pytest.raises(ConfigError, match="unknown option 'lookahed'"):
        lanes(made(engine={"target": "t", "draft": "d", "lookahed": 3}))
