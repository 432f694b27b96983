import pytest

from saguaro.errors import ConfigError
from saguaro.simulate.costs import Costs, laws_reply, measured, memory_shares, roofline
from saguaro.simulate.hardware import BANDWIDTH_SHARE, FLOPS_SHARE, HARDWARE, open_hardware
from saguaro.simulate.shapes import PRESETS

H100, LARGE = HARDWARE["h100"], PRESETS["llama-3.1-70b"]


def test_a_small_pass_takes_its_bytes_and_its_layers():
    seconds = roofline(LARGE, H100, devices=4)(1)
    reading = LARGE.read * 2 / (4 * H100.bandwidth * BANDWIDTH_SHARE)
    fixed = LARGE.layers * (H100.layer + 2 * H100.all_reduce)
    assert seconds == pytest.approx(reading + fixed, rel=1e-3)  # what a row sends on the links is small


def test_a_large_pass_takes_its_operations():
    step = roofline(LARGE, H100, devices=4)
    slope = (step(8000) - step(4000)) / 4000
    wires = 2 * LARGE.layers * 1.5 * LARGE.hidden * 2 / H100.link
    assert slope == pytest.approx(LARGE.flops_per_token / (4 * H100.flops * FLOPS_SHARE) + wires)


def test_one_device_has_no_all_reduce():
    small = PRESETS["llama-3.2-1b"]
    expected = small.read * 2 / (H100.bandwidth * BANDWIDTH_SHARE) + small.layers * H100.layer
    assert roofline(small, H100)(1) == pytest.approx(expected)


def test_keys_and_values_are_read():
    longer = roofline(LARGE, H100, devices=4, sequences=8, context=1000.0)(1) - roofline(LARGE, H100, devices=4)(1)
    assert longer == pytest.approx(8 * 1000 * LARGE.kv_bytes_per_token() / (4 * H100.bandwidth * BANDWIDTH_SHARE))


def test_every_device_names_its_source():
    for hardware in HARDWARE.values():
        assert len(hardware.source) > 10
        assert min(hardware.memory, hardware.bandwidth, hardware.flops, hardware.link) > 0
    with pytest.raises(ConfigError, match="did you mean 'h200'"):
        open_hardware("h20")


def test_cores_share_a_memory_and_accelerators_do_not():
    core = HARDWARE["cpu-core"]
    assert memory_shares(core, devices=1) == memory_shares(H100, devices=8) == 1
    assert memory_shares(core, devices=2) == pytest.approx(33 / 54)


def test_laws_on_a_link():
    assert laws_reply(1000, H100, batch=2)(3) == pytest.approx(2 * 3 * 2004 / 450e9)


def test_branches_over_several_devices():
    costs = Costs(lambda rows: 1.0, lambda rows: 0.1 * rows, branching=0.05, draft_devices=4)
    assert costs.step(24) == pytest.approx(0.1 * 6 + 0.05)
    assert costs.step(25) == pytest.approx(0.1 * 7 + 0.05)
    assert costs.extend(1) == pytest.approx(0.1)


def test_a_profile_is_taken_as_it_was_measured():
    times = {
        "verify_alone": {1: 1.0, 4: 1.3}, "verify_together": {1: 1.5, 4: 2.1},
        "step_alone": {1: 0.2, 4: 0.3}, "step_together": {1: 0.3, 4: 0.6},
    }  # fmt: skip
    costs = measured(times, link=0.01)
    assert (costs.verify(2), costs.draft(1), costs.link) == (pytest.approx(1.1), 0.2, 0.01)
    assert costs.verify_while(4, both=True) == 2.1
    assert costs.step(2) == pytest.approx(0.4)
    beside = measured(times, handling=0.03, between=0.05)
    assert (beside.verify(1), beside.draft(1), beside.step(2)) == (1.0, pytest.approx(0.25), pytest.approx(0.45))
    assert beside.handling == 0.03
    with pytest.raises(ConfigError, match="step_alone"):
        measured({"verify_alone": {1: 1.0}})
