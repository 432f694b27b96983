"""A whole calibration of a toy pair: what it writes, what an engine takes from it, and that it goes on where it was."""

import pytest

from saguaro import LLM, SamplingParams
from saguaro.calibrate.analysis import saguaro_sampling
from saguaro.calibrate.recording import recording_options
from saguaro.calibrate.report import PICTURES, page_of, write_report
from saguaro.calibrate.run import Calibrating, CalibrationSettings, key
from saguaro.calibrate.stages import Stages
from saguaro.config import EngineConfig
from saguaro.engine.resolve import resolve
from saguaro.errors import ConfigError
from saguaro.profile import load

ENGINE = {
    "target": "toy:llama?seed=1&vocab=48", "draft": "toy:llama?seed=1&vocab=48&noise=0.05", "channel": "loopback",
    "max_model_len": 128, "page_size": 8,
}  # fmt: skip
SETTINGS = CalibrationSettings(
    ENGINE, ["abc", "hello"], ("letters",), temperatures=(0.0, 1.0), max_tokens=32, lookahead=3, candidates=12,
    seconds=0, positions=8, check=True,
)  # fmt: skip


def calibrating(folder, stages, open_llm=LLM):
    plan = resolve(EngineConfig.from_options(**SETTINGS.recording()))
    return Calibrating(
        SETTINGS, plan, Stages(stages, key(SETTINGS, plan)), open_llm, on_stage=lambda name, steps: folder.append(name)
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The profile, its file, the folder of the stages, and the stages that were announced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saguaro.engine.interface.MEASURE_SECONDS", 0.0)
        folder, names = tmp_path_factory.mktemp("calibration"), []
        out = folder / "pair.json"
        profile = calibrating(names, folder / "stages").run(out)
        yield profile, out, folder / "stages", names


def test_the_file_holds_the_profile(made):
    profile, out, _, _ = made
    assert load(out).best == profile.best
    assert profile.pair.dtype == "float32"
    assert set(profile.times) == {"verify_alone", "verify_together", "step_alone", "step_together"}
    assert [each["temperature"] for each in profile.details["temperatures"]] == [0.0, 1.0]
    assert 0.2 < profile.after_hit.rate < 1
    assert {each.mode for each in profile.best} == {"ar", "sd", "ssd"}
    assert {each["mode"] for each in profile.details["checked"]} == {"ar", "sd", "ssd"}
    rates = profile.details["temperatures"][0]["hit_rates"]["policies"]
    assert all(0 < own["8"] <= own["24"] <= 1 for own in rates.values())
    assert {lookahead: len(each.acceptance) for lookahead, each in load(out).by_lookahead.items()} == {
        lookahead: lookahead for lookahead in range(1, 9)
    }


def test_an_engine_takes_it(made):
    profile, out, _, _ = made
    with LLM(**ENGINE, mode="ssd", fan_out="auto", profile=out) as llm:
        best, plan = profile.best_of("ssd"), llm.statistics()["plan"]
        assert (plan["lookahead"], plan["budget"], plan["fan_out"]) == (best.lookahead, best.budget, best.fan_out)
        [found] = llm.generate("abc", SamplingParams(temperature=0, max_tokens=20, ignore_eos=True))
    with LLM(**{**ENGINE, "draft": None}) as llm:
        [alone] = llm.generate("abc", SamplingParams(temperature=0, max_tokens=20, ignore_eos=True))
    assert found.token_ids == alone.token_ids


def test_the_same_again_goes_on_where_it_was(made, tmp_path):
    """No engine is opened: every stage is there."""
    profile, _, stages, _ = made

    def no_engine(**options):
        raise AssertionError("it was measured already")

    names = []
    again = calibrating(names, stages, no_engine).run(tmp_path / "again.json")
    assert (again.times, again.details, again.best) == (profile.times, profile.details, profile.best)
    assert names == ["hit rates and the best settings"]


def test_stages_are_announced(made):
    *_, names = made
    assert names[:2] == ["loading both models", "step times, alone and together"]
    assert "laws at temperature 1" in names
    assert "laws at temperature 0" not in names


def test_the_report(made, tmp_path):
    pytest.importorskip("matplotlib")
    profile, *_ = made
    page = write_report(profile, tmp_path / "report")
    assert page.read_text("utf-8") == page_of(profile)
    for name in PICTURES:
        assert f"({name}.svg)" in page.read_text("utf-8")
        assert (tmp_path / "report" / f"{name}.svg").read_text().startswith("<?xml")
    assert "| ranked |" in page_of(profile)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompts": []}, "at least one prompt"),
        ({"temperatures": ()}, "at least one"),
        ({"temperatures": (1.0, 1.0)}, "given twice"),
        ({"temperatures": (-1.0,)}, "0 ... 100"),
        ({"max_tokens": 4}, "8 tokens"),
        ({"engine": {**ENGINE, "budget": 4}}, "'budget' is what a calibration decides itself"),
    ],
)
def test_what_cannot_be_measured(changes, words):
    values = {"engine": ENGINE, "prompts": ["a"], **changes}
    with pytest.raises(ConfigError, match=words):
        CalibrationSettings(**values)


def test_a_recording_engine_prepares_nothing():
    options = recording_options(ENGINE, lookahead=4, candidates=9, rows=3)
    assert (options["fan_out"], options["fallback"], options["pacing"]) == ("none", "neural", "lockstep")
    assert (options["lookahead"], options["observe"], options["max_batch"]) == (4, 9, 3)


def test_c_with_the_most_tokens_a_second():
    """Rows and depth are free, so C = .5 wins: it foresees far more, and costs little acceptance."""
    times = {"verify_together": {1: 1.0, 9: 1.0}, "step_together": {1: 0.2, 9: 0.2}, "step_alone": {1: 0.2, 9: 0.2}}
    laws = {"1": [[1.0, 2, 0.80, 0.5, 0.9], [0.5, 2, 0.79, 0.9, 0.9]]}
    found = saguaro_sampling(laws, times, lookahead=2)
    assert (found["c"], found["fan_out"], len(found["rows"])) == (0.5, 2, 2)
    assert saguaro_sampling({}, times, lookahead=2)["c"] == 1.0
