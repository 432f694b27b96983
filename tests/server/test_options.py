"""Settings of a server are checked once, by name."""

import pytest

from saguaro.errors import ConfigError
from saguaro.server.options import ServerOptions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"names": ()}, "name"),
        ({"names": ("",)}, "name"),
        ({"api_keys": ("",)}, "API key"),
        ({"api_keys": ("kéy",)}, "API key"),
        ({"max_queue": -1}, "max_queue"),
        ({"max_body": 0}, "max_body"),
        ({"request_seconds": -1.0}, "request_seconds"),
        ({"drain_seconds": float("nan")}, "drain_seconds"),
        ({"patience": 0.0}, "patience"),
        ({"tool_parser": "herms"}, "did you mean 'hermes'"),
        ({"reasoning_parser": "qwen"}, "did you mean 'qwen3'"),
        ({"send_seconds": 0.0}, "send_seconds"),
        ({"read_seconds": float("nan")}, "read_seconds"),
        ({"on_engine_death": "stop"}, "restart or stay or exit"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(ConfigError, match=words):
        ServerOptions(**{"names": ("m",), **options})


def test_dotted_paths_are_taken():
    ServerOptions(names=("m",), tool_parser="my.module:Parser", reasoning_parser="none")


def test_nothing_is_open_by_default():
    options = ServerOptions(names=("m",))
    assert (options.api_keys, options.origins) == ((), ())
