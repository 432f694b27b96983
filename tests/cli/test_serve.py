"""`saguaro serve`: its flags are the server's settings, mistakes are told before anything is loaded."""

from dataclasses import fields

import pytest

from saguaro.cli.main import build_parser
from saguaro.cli.serve import LIMITS, api_keys, name_of
from saguaro.errors import ConfigError
from saguaro.server.options import ServerOptions


def test_every_setting_has_a_flag():
    own = {"names": "--served-model-name", "api_keys": "--api-key-file", "origins": "--cors-origin"}
    known = set(build_parser("serve").known())
    settings = {field.name for field in fields(ServerOptions)} - {"quiet_seconds"}
    assert settings == set(LIMITS) | set(own)
    assert "--max-waiting" not in known  # the engine would refuse with a 400 where the queue says 429
    assert {*own.values(), *("--" + name.replace("_", "-") for name in LIMITS)} <= known


@pytest.mark.parametrize("name", [name for name in LIMITS if name.endswith(("seconds", "queue", "body", "patience"))])
def test_defaults_are_the_settings_own(name):
    default = getattr(ServerOptions(names=("m",)), name)
    assert f"(default {default:g})" in LIMITS[name][1] or f"(default {default})" in LIMITS[name][1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "99999"], "port 99999 is outside"),
        (["--host", "no.such.host.invalid"], "is no address of this machine"),
        (["--tool-parser", "herms"], "did you mean 'hermes'"),
        (["--max-queue", "-1"], "max_queue must be"),
        (["--served-model-name", ""], "name"),
        (["--draft", "toy:lama"], "did you mean 'llama'"),
        (["--prot", "1"], "did you mean '--port'"),
    ],
)
def test_mistakes(here, toy, arguments, words):
    done = here("serve", *toy, *arguments)
    assert (done.status, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1


def test_what_a_model_is_called(tmp_path):
    path = tmp_path / "model.gguf"
    path.touch()
    assert name_of(str(path)) == "model.gguf"
    assert name_of("Qwen/Qwen3-8B") == "Qwen/Qwen3-8B"
    assert name_of("toy:llama?seed=1") == "toy:llama?seed=1"


def test_keys_come_from_a_file_and_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("SAGUARO_API_KEY", raising=False)
    assert api_keys(None) == ()
    monkeypatch.setenv("SAGUARO_API_KEY", "one")
    path = tmp_path / "keys"
    path.write_text("# ours\ntwo\n\n  three \n")
    assert api_keys(str(path)) == ("one", "two", "three")
    path.write_text("# none\n")
    with pytest.raises(ConfigError, match="no API key"):
        api_keys(str(path))
