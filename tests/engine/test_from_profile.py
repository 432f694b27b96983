"""An engine takes from a profile what was left open, and its draft begins with what the profile knows."""

from dataclasses import replace

import pytest
from tests.ground.test_profile import PROFILE

from saguaro.algorithm.odds import UNCALIBRATED, Calibration
from saguaro.config import EngineConfig
from saguaro.engine.build import settings_of
from saguaro.engine.from_profile import calibration, evidence, pair_of, running_evidence, short_name
from saguaro.engine.resolve import resolve
from saguaro.errors import ConfigError
from saguaro.models.checkpoint import open_checkpoint
from saguaro.profile import save
from saguaro.theory.evidence import assumed

TARGET, DRAFT = "toy:llama?seed=1&vocab=48", "toy:llama?seed=1&vocab=48&noise=0.1"


@pytest.fixture
def path(tmp_path):
    target, draft = open_checkpoint(TARGET), open_checkpoint(DRAFT)
    pair = pair_of(target, draft, dtype="float32", draft_dtype="float32")
    path = tmp_path / "pair.json"
    save(replace(PROFILE, pair=pair), path)
    return path


def plan(path, *, target=TARGET, draft=DRAFT, **options):
    return resolve(EngineConfig(target, draft, max_model_len=128, profile=path, **options))


def test_what_is_open_comes_from_the_profile(path):
    found = plan(path, mode="ssd", fan_out="auto")
    assert (found.lookahead, found.budget, found.fan_out) == (5, 8, "ranked")


def test_what_is_given_stays(path):
    found = plan(path, mode="ssd", lookahead=3, budget=6, fan_out="uniform")
    assert (found.lookahead, found.budget, found.fan_out) == (3, 6, "uniform")
    listed = plan(path, mode="ssd", fan_out=[2, 1, 1])
    assert (listed.lookahead, listed.budget) == (2, 4)


def test_without_a_profile_auto_is_ranked():
    assert plan(None, mode="ssd", fan_out="auto").fan_out == "ranked"


def test_saguaro_sampling(path):
    assert settings_of(plan(path, mode="ssd", verification="rejection")).saguaro_c == 0.5
    assert settings_of(plan(path, mode="ssd", verification="rejection", saguaro_c="auto")).saguaro_c == 0.5
    assert settings_of(plan(path, mode="ssd", verification="rejection", saguaro_c=0.9)).saguaro_c == 0.9
    assert settings_of(plan(path, mode="ssd")).saguaro_c == 1.0
    assert settings_of(plan(None, mode="ssd", verification="rejection")).saguaro_c == 1.0
    with pytest.raises(ConfigError, match="needs a profile"):
        EngineConfig(TARGET, DRAFT, verification="rejection", saguaro_c="auto")


def test_another_pair_is_refused_before_weights_load(path):
    with pytest.raises(ConfigError, match="this draft is another"):
        plan(path, draft="toy:llama?seed=1&vocab=48&noise=0.2")
    with pytest.raises(ConfigError, match="not bfloat16"):
        plan(path, dtype="bfloat16")
    with pytest.raises(ConfigError, match="this target is another"):
        plan(path, target="toy:llama?seed=2&vocab=48", draft=None)
    assert plan(path, draft=None).lookahead == 0


def test_what_the_draft_expects(path):
    profile = plan(path).profile
    known = running_evidence(profile, "neural")
    assert known.of(after_hit=True) == known.of(after_hit=False) == evidence(PROFILE.after_hit)
    assert running_evidence(profile, "random").of(after_hit=False) == evidence(PROFILE.after_miss)
    assert running_evidence(None, "neural").of(after_hit=True) == assumed()
    assert (calibration(profile), calibration(None)) == (Calibration(0.7, 0.1), UNCALIBRATED)


def test_names_without_folders():
    assert short_name("/models/a.gguf") == "a.gguf"
    assert short_name("org/name") == "org/name"
    assert short_name("toy:llama?seed=1") == "toy:llama?seed=1"
