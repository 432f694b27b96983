"""Hub ids: found in the standard cache layout without a network, else fetched, else one sentence."""

import sys
import types

import pytest

from saguaro.errors import ConfigError
from saguaro.models import hub
from saguaro.models.build import build_model, make_ops
from saguaro.models.checkpoint import open_checkpoint, probe

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cached(save_tiny, tmp_path):
    """A cache folder that holds `saguaro-tests/tiny`, laid out as the hub's client does it, links included."""
    _, directory = save_tiny("qwen2")
    base = tmp_path / "hub" / "models--saguaro-tests--tiny"
    snapshot, blobs = base / "snapshots" / COMMIT, base / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (base / "refs").mkdir()
    (base / "refs" / "main").write_text(COMMIT)
    for file in directory.iterdir():
        file.rename(blobs / file.name)
        (snapshot / file.name).symlink_to(blobs / file.name)
    return tmp_path / "hub"


def test_a_cached_model_opens_without_a_network(cached, logits_of):
    assert hub.find_cached("saguaro-tests/tiny", cache=cached).name == COMMIT
    assert probe("saguaro-tests/tiny", hub_cache=cached).architecture == "qwen2"
    checkpoint = open_checkpoint("saguaro-tests/tiny", hub_cache=cached, download=False)
    assert logits_of(build_model(checkpoint, make_ops("torch", "float32")), [1, 2]).shape == (2, 96)


def test_revisions_by_name_and_by_commit(cached):
    assert hub.find_cached(f"saguaro-tests/tiny@{COMMIT}", cache=cached) is not None
    assert hub.find_cached("saguaro-tests/tiny@other", cache=cached) is None


def test_an_interrupted_download_does_not_count(cached):
    (cached / "models--saguaro-tests--tiny" / "snapshots" / COMMIT / "config.json").unlink()
    assert hub.find_cached("saguaro-tests/tiny", cache=cached) is None


def fake_package(monkeypatch, download):
    package = types.ModuleType("huggingface_hub")
    package.snapshot_download = download
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)


def test_what_is_not_cached_is_fetched_into_the_given_cache(monkeypatch, tmp_path, save_tiny):
    _, directory = save_tiny("llama")
    calls = []

    def download(**options):
        calls.append(options)
        return str(directory)

    fake_package(monkeypatch, download)
    assert open_checkpoint("saguaro-tests/other@v2", hub_cache=tmp_path).config.architecture == "llama"
    assert (calls[0]["repo_id"], calls[0]["revision"]) == ("saguaro-tests/other", "v2")
    assert calls[0]["cache_dir"] == str(tmp_path)
    assert "*.safetensors" in calls[0]["allow_patterns"]


def test_an_unreachable_hub_is_one_sentence(monkeypatch, tmp_path):
    def download(**options):
        raise OSError("no route to host\nwith a long trace")

    fake_package(monkeypatch, download)
    with pytest.raises(ConfigError, match="cannot be fetched from the hub") as caught:
        open_checkpoint("saguaro-tests/other", hub_cache=tmp_path)
    assert "\n" not in str(caught.value)


def test_without_the_package_the_sentence_names_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match="install huggingface_hub"):
        open_checkpoint("saguaro-tests/other", hub_cache=tmp_path)


def test_probing_never_downloads(monkeypatch, tmp_path):
    fake_package(monkeypatch, lambda **options: pytest.fail("went to the network"))
    assert probe("saguaro-tests/other", hub_cache=tmp_path) is None
    with pytest.raises(ConfigError, match="no model of that name"):
        open_checkpoint("saguaro-tests/other", hub_cache=tmp_path, download=False)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Qwen/Qwen2.5-0.5B", True),
        ("a/b@main", True),
        ("a/b/c", False),
        ("name", False),
        ("./a/b", False),
        ("/a/b", False),
        ("../b", False),
        ("models/x.gguf", False),
        ("a/b@", False),
        ("", False),
    ],
)
def test_the_form_of_a_hub_id(source, expected):
    assert hub.is_hub_id(source) is expected
