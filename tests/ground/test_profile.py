"""A profile comes back from its file as it was; what does not fit is refused in a sentence."""

import json
from dataclasses import replace

import pytest

from saguaro.errors import ConfigError
from saguaro.profile import Best, Curves, Pair, Profile, load, save

CURVES = {"acceptance": [0.9, 0.6], "after_rejection": [0.0, 0.5], "after_all": [0.0, 0.9]}
PAIR = Pair("big.gguf", "small.gguf", "a1", "b2", "int8", "int4")
PROFILE = Profile(
    pair=PAIR,
    devices=("cpu:0", "cpu:1"),
    after_hit=Curves(0.8, (0.9, 0.7), (0.0, 0.5, 0.7), (0.0, 0.9, 0.95)),
    after_miss=Curves(0.0, (), (0.0, 0.8), (0.0, 0.8)),
    sharpness=0.7,
    doubt=0.1,
    times={"verify_alone": {1: 0.06, 5: 0.07}},
    best=(
        Best("ar", 1, 0, 0, "none", "none", 15.0),
        Best("ssd", 1, 5, 8, "ranked", "neural", 40.0),
        Best("ssd", 8, 2, 4, "optimal", "neural", 90.0),
    ),
    saguaro_c=0.5,
    details={"any": [1, 2], "by_lookahead": {"2": {**CURVES, "rate": 0.75}}},
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "pair.json"
    save(PROFILE, path)
    return path


def test_to_a_file_and_back(path):
    assert load(path) == PROFILE


def test_curves_of_a_lookahead(path):
    assert load(path).by_lookahead == {2: Curves(0.75, (0.9, 0.6), (0.0, 0.5), (0.0, 0.9))}
    assert replace(PROFILE, details={}).by_lookahead == {}


def test_the_best_of_the_nearest_batch():
    assert PROFILE.best_of("ssd").lookahead == 5
    assert PROFILE.best_of("ssd", 6).lookahead == 2
    assert PROFILE.best_of("sd") is None


def changed(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return path


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"schema": 99}, "version 99 of its form"),
        ({"form": "recipe"}, "is not a profile"),
        ({"pair": {"target": "x"}}, "is damaged"),
        ({"times": {"verify_alone": {"one": 1}}}, "is damaged"),
        ({"after_hit": {"rate": 1, "acceptance": [3], "after_rejection": [], "after_all": []}}, "no probability"),
    ],
)
def test_what_cannot_be_read(path, values, words):
    with pytest.raises(ConfigError, match=words) as caught:
        load(changed(path, **values))
    assert "\n" not in str(caught.value)


def test_no_file_and_no_json(tmp_path):
    with pytest.raises(ConfigError, match="does not exist; `saguaro calibrate"):
        load(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "text.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ConfigError, match="is not a profile"):
        load(tmp_path / "list.json")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"target_print": "other"}, "for the target 'big.gguf', and this target is another"),
        ({"draft_print": "other"}, "for the draft 'small.gguf', and this draft is another"),
        ({"dtype": "bfloat16"}, "for dtype int8, not bfloat16"),
        ({"draft_dtype": "int8"}, "for draft_dtype int4, not int8"),
    ],
)
def test_another_pair_is_refused(values, words):
    PROFILE.check(replace(PAIR, target="elsewhere/big.gguf"), "p.json")  # the name may differ, the files may not
    with pytest.raises(ConfigError, match=words):
        PROFILE.check(replace(PAIR, **values), "p.json")
