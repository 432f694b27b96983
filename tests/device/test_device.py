"""Device strings."""

import pytest

from saguaro.device import allowed_cores, default_devices, parse_device
from saguaro.errors import ConfigError


def test_a_core_and_a_range_are_counted_among_the_allowed_cores() -> None:
    cores = allowed_cores()
    assert parse_device("cpu:0").cores == (cores[0],)
    assert parse_device(f"cpu:0-{len(cores) - 1}").cores == tuple(cores)
    assert parse_device("cpu").cores == tuple(cores)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cpu:4096", "does not exist"),
        ("cpu:0-4096", "does not exist"),
        ("cpu:1-0", "empty range"),
        ("gpu", "not understood"),
        ("cpu:-1", "not understood"),
        ("cpu:0,cpu:1", "not built yet"),
        ("cuda:0", "not built yet"),
    ],
)
def test_a_wrong_device_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_device(text)


def test_defaults_exist_on_this_machine() -> None:
    for mode in ("ar", "sd", "ssd"):
        for text in default_devices(mode):
            parse_device(text)
