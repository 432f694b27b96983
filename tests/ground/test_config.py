"""What the configuration refuses, and how it says so."""

import pytest

from saguaro.config import EngineConfig
from saguaro.errors import ConfigError


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="lookahead"):
        EngineConfig.from_options("t", lookahed=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "sdd"}, "did you mean 'sd'"),
        ({"mode": "ssd"}, "needs a draft"),
        ({"lookahead": -1}, "lookahead must be"),
        ({"lookahead": True}, "lookahead must be"),
        ({"budget": 1000}, "budget must be"),
        ({"dtype": "int9"}, "did you mean 'int8'"),
        ({"saguaro_c": 0.5}, "rejection"),
        ({"saguaro_c": 1.5, "verification": "rejection"}, "0 ... 1"),
        ({"tree": 4}, "modes 'sd' and 'ssd'"),
        ({"tree": "auto", "mode": "auto", "draft": "d"}, "modes 'sd' and 'ssd'"),
        ({"tree": 33, "mode": "sd", "draft": "d"}, "tree must be"),
        ({"fan_out": [1, 2], "lookahead": 3}, "K \\+ 1"),
        ({"fan_out": [1, 2], "budget": 4}, "differs from the sum"),
        ({"fallback": "adaptiv"}, "did you mean 'adaptive'"),
        ({"fallback_corpus": -1}, "fallback_corpus must be"),
        ({"saguaro_c": "auto", "verification": "rejection"}, "needs a profile"),
        ({"observe": 65}, "observe must be"),
        ({"max_batch": 0}, "max_batch"),
        ({"round_log": 3}, "round_log must name a file"),
        ({"round_log": ""}, "round_log must name a file"),
        ({"trace": 1}, "trace must be true or false"),
    ],
)
def test_impossible_values_are_refused_in_one_sentence(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        EngineConfig.from_options("t", **options)
    assert "\n" not in str(caught.value)


def test_lists_and_dictionaries_become_values() -> None:
    config = EngineConfig.from_options("t", "d", fan_out=[1, 2, 3], drafter_options={"b": 1, "a": 2})
    assert config.fan_out == (1, 2, 3)
    assert config.drafter_options == (("a", 2), ("b", 1))
