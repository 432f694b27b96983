"""Which placements there are, which is kept, and that the choice is remembered."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from saguaro import device
from saguaro.config import EngineConfig
from saguaro.engine import engine as engines
from saguaro.engine import placement
from saguaro.engine.placement import MEMORY, Promised, better, promised, recall, remember, spots
from saguaro.engine.resolve import resolve
from saguaro.theory.rates import StepTimes

MODELS = ["target", "int8", "draft", "int4"]


@pytest.fixture
def cores(monkeypatch):
    def have(count: int) -> None:
        for module in (device, placement):
            monkeypatch.setattr(module, "allowed_cores", lambda: list(range(count)))

    have(4)
    return have


def found(folder=None, **options):
    config = EngineConfig(**{"target": "t", "draft": "d", **options})
    each, key = spots(config, models=lambda: MODELS, folder=folder)
    return [(spot.mode, spot.target_device, spot.draft_device, spot.gears) for spot in each], key


def test_devices_given_leave_no_choice_but_that_of_gears(cores):
    apart, shared = ("ar", "sd", "ssd"), ("ar", "sd")
    for options, spot in (
        ({"target_device": "cpu:0", "draft_device": "cpu:1"}, ("ssd", "cpu:0", "cpu:1", apart)),
        ({"target_device": "cpu:0-2", "draft_device": "cpu:2"}, ("sd", "cpu:0-2", "cpu:0-2", shared)),
        ({"target_device": "cpu:1", "draft_device": "cpu:1"}, ("sd", "cpu:1", "cpu:1", shared)),
        ({"target_device": "cpu:0-1"}, ("ssd", "cpu:0-1", "cpu:3", apart)),
        ({"target_device": "cpu"}, ("sd", "cpu", "cpu", shared)),
        ({"draft_device": "cpu:0"}, ("ssd", "cpu:1-3", "cpu:0", apart)),
        ({"target_device": "cpu:2-3"}, ("ssd", "cpu:2-3", "cpu:0-1", apart)),
        ({"mode": "ssd"}, ("ssd", "cpu:0-2", "cpu:3", ())),
        ({"mode": "ssd", "target_device": "cpu:3"}, ("ssd", "cpu:3", "cpu:0-2", ())),
        ({"mode": "ssd", "draft_device": "cpu:1"}, ("ssd", "cpu:2-3", "cpu:1", ())),
        ({"mode": "sd", "target_device": "cpu:2"}, ("sd", "cpu:2", "cpu:2", ())),
        ({"draft": None}, ("ar", "cpu", "cpu", ())),
        ({"channel": "loopback"}, ("ssd", "cpu:0-2", "cpu:3", apart)),
    ):
        assert found(**options) == ([spot], ""), options


def test_nothing_given_means_two_placements_until_one_was_chosen(cores, tmp_path):
    both, key = found(str(tmp_path))
    assert [spot[:3] for spot in both] == [("ssd", "cpu:0-2", "cpu:3"), ("sd", "cpu:0-3", "cpu:0-3")]
    remember(str(tmp_path), key, "cpu:0-3", "cpu:0-3", "because")
    assert found(str(tmp_path)) == ([both[1]], key)
    assert found(str(tmp_path), max_batch=2)[0] == both  # another question
    cores(1)
    assert found(str(tmp_path)) == ([("sd", "cpu:0", "cpu:0", ("ar", "sd"))], "")


@pytest.mark.parametrize("text", ["", "[]", '{"key": 3}', '{"key": {"why": 3}}'])
def test_a_damaged_memory_is_none(tmp_path, text):
    (tmp_path / MEMORY).write_text(text)
    assert recall(str(tmp_path), "key") is None
    remember(str(tmp_path), "key", "cpu:0", "cpu:1", "because")
    assert recall(str(tmp_path), "key") == {"target_device": "cpu:0", "draft_device": "cpu:1", "why": "because"}
    assert [path.name for path in tmp_path.iterdir()] == [MEMORY]


def test_a_folder_that_cannot_be_written_to_forgets(tmp_path):
    (tmp_path / "file").write_text("")
    remember(str(tmp_path / "file"), "key", "cpu:0", "cpu:1", "because")
    assert recall(str(tmp_path / "file"), "key") is None
    assert recall(None, "key") is None


def test_promises_are_compared_for_one_request_first():
    whole = StepTimes.of({1: 0.04, 8: 0.045, 16: 0.08}, {1: 0.007, 12: 0.02})
    split = StepTimes(
        {1: 0.07, 8: 0.08, 16: 0.16}, {1: 0.09, 8: 0.1, 16: 0.2}, {1: 0.01, 12: 0.03}, {1: 0.017, 12: 0.05}
    )
    one = promised(split, ("ar", "sd", "ssd"), max_batch=8)
    other = promised(whole, ("ar", "sd"), max_batch=8)
    assert (one.gear, other.gear) == ("ssd", "sd")
    assert better(one, other)
    assert not better(other, one)
    assert better(Promised("sd", 30.0, 50.0), Promised("ssd", 29.5, 90.0))  # close: the full batch decides
    assert not better(Promised("sd", 30.0, 50.0), Promised("ssd", 20.0, 90.0))


@pytest.mark.parametrize("wins", ["split", "whole"])
def test_both_are_opened_and_the_better_is_kept_and_remembered(cores, monkeypatch, tmp_path, wins):
    events: list[str] = []

    class Opened:
        def __init__(self, plan) -> None:
            self.plan = plan
            slow = (plan.mode == "ssd") == (wins == "whole")
            verify = 0.2 if slow else 0.05
            self.times = StepTimes.of({1: verify, 9: verify}, {1: 0.005, 12: 0.01})
            events.append(f"open {plan.mode}")

        def close(self) -> None:
            events.append(f"close {self.plan.mode}")

    monkeypatch.setattr(engines, "ProcessEngine", Opened)
    monkeypatch.setattr(placement, "_measurable", lambda target: True)
    monkeypatch.setattr(placement.os, "getloadavg", lambda: (load[0], 0.0, 0.0))
    load = [9.0]
    toy = "toy:llama?layers=2&hidden=64&heads=4&kv_heads=2&ffn=128&vocab=512"

    def opened() -> SimpleNamespace:
        return engines.open_engine(resolve(EngineConfig(toy, toy), cache_dir=str(tmp_path)))

    assert "busy" in opened().plan.why
    events.clear()
    load[0] = 1.0
    first = opened()
    tried = ["open ssd", "close ssd", "open sd"]
    assert events == (tried if wins == "whole" else [*tried, "close sd", "open ssd"])
    assert first.plan.mode == ("sd" if wins == "whole" else "ssd")
    assert "tried at the first start" in first.plan.summary()["why"]
    events.clear()
    again = opened()
    assert events == [f"open {first.plan.mode}"]
    assert again.plan.why == first.plan.why
