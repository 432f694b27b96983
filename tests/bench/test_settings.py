"""Lanes: the paper's placement, equal hardware, and refusals."""

import pytest

from saguaro import device
from saguaro.bench.settings import BenchSettings, Setting, lanes, union
from saguaro.config import EngineConfig
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


def test_auto_has_the_devices_of_ssd_and_all_for_both(cores):
    engine = {"target": "t", "draft": "d", "target_device": "cpu:0-2", "draft_device": "cpu:3"}
    found = lanes(made(engine=engine, modes=("ssd", "auto"), equal_hardware=True))
    assert [(lane.name, lane.devices, lane.options["mode"]) for lane in found] == [
        ("ssd", "cpu:0-2 + cpu:3", "ssd"), ("auto", "cpu:0-2 + cpu:3", "auto"),
        ("auto (all devices)", "cpu:0-3", "auto"),
    ]  # fmt: skip
    assert found[2].options["draft_device"] == "cpu:0-3"


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
        ({"batches": (2,), "rates": (1.0,)}, "not both"),
        ({"batches": (2, 2)}, "every batch is measured once; 2, 2 has one twice"),
        ({"rates": (0.5, 0.5)}, "every rate is measured once"),
        ({"batches": (0,)}, "at least one row"),
        ({"rates": (0.0,)}, "a second above 0"),
        ({"rates": (1.0, -1.0)}, "a second above 0"),
        ({"rates": (float("nan"),)}, "a second above 0"),
        ({"rates": (float("inf"),)}, "a second above 0"),
        ({"seconds": 3.0}, "belongs to an open loop"),
        ({"rates": (1.0,), "seconds": 3.0, "num_requests": 3}, "not both"),
        ({"rates": (1.0,), "seconds": 0.0}, "seconds of an open loop must be"),
        ({"rates": (1e6,), "seconds": 10.0}, "more than 100000"),
        ({"rates": (0.001,), "seconds": 0.001}, "no request arrives within 0.001 s at rate 0.001"),
        ({"batches": (1, 8), "num_requests": 7}, "7 requests cannot keep 8 running"),
        ({"batches": (1, 16), "engine": {"target": "t", "draft": "d", "max_batch": 8}}, "16 is above max_batch 8"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ConfigError, match=message):
        made(**options)


def test_the_engine_has_room_for_the_largest_batch(cores):
    engine = {"target": "t", "draft": "d"}
    for options, expected in (
        ({"batches": (1, 12)}, 12),
        ({"batches": (1, 12), "engine": {**engine, "max_batch": 16}}, 16),
        ({}, 1),
        ({"rates": (1.0,)}, EngineConfig.max_batch),
        ({"rates": (1.0,), "engine": {**engine, "max_batch": 3}}, 3),
    ):
        settings = made(**options)
        assert settings.max_batch == expected
        assert {lane.options["max_batch"] for lane in lanes(settings)} == {expected}


def test_devices_are_counted_by_cores(cores):
    engine = {"target": "t", "draft": "d", "target_device": "cpu:0-2", "draft_device": "cpu:3"}
    found = lanes(made(engine=engine, equal_hardware=True))
    assert [(lane.mode, lane.num_devices) for lane in found] == [
        ("ar", 3), ("sd", 3), ("ssd", 4), ("ar", 4), ("sd", 4),
    ]  # fmt: skip


def test_how_many_requests_a_run_has():
    closed = made(prompts=["a"] * 6, batches=(1, 2))
    assert [closed.count(setting) for setting in closed.schedule()] == [6, 8]
    given = made(prompts=["a"] * 6, batches=(1, 2), num_requests=5)
    assert [given.count(setting) for setting in given.schedule()] == [5, 5]
    by_rate = made(prompts=["a"] * 6, rates=(1.0, 2.0))
    assert [by_rate.count(setting) for setting in by_rate.schedule()] == [6, 6]
    by_time = made(rates=(1.0, 50.0), seconds=8.0)
    few, many = (by_time.count(setting) for setting in by_time.schedule())
    assert 0 < few < many
    assert all(time < 8 for setting in by_time.schedule() for time in by_time.arrivals(setting))


def test_order_of_settings():
    found = list(made(repeats=2, temperatures=(0.0, 1.0), batches=(1, 4)).schedule())
    assert found[:4] == [Setting(0, 0.0, 1), Setting(0, 0.0, 4), Setting(0, 1.0, 1), Setting(0, 1.0, 4)]
    assert [setting.repeat for setting in found] == [0] * 4 + [1] * 4
    assert list(made(rates=(2.0,)).schedule()) == [Setting(0, 0.0, EngineConfig.max_batch, 2.0)]


def test_options_are_checked_as_a_configuration(cores):
    with pytest.raises(ConfigError, match="unknown option 'lookahed'"):
        lanes(made(engine={"target": "t", "draft": "d", "lookahed": 3}))


def test_proposal_trees_are_for_the_lanes_with_a_named_mode(cores):
    found = lanes(made(engine={"target": "t", "draft": "d", "tree": 7}))
    assert {lane.mode: lane.options.get("tree") for lane in found} == {"ar": None, "sd": 7, "ssd": 7}
