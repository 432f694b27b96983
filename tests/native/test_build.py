"""Finding a compiler, compiling once, several processes at once, and what is said when it cannot be done."""

import os
import subprocess
import sys

import pytest

from saguaro.errors import ConfigError
from saguaro.native import build, cpu_features, library
from saguaro.native.build import Compiler, find_compiler, library_path
from saguaro.native.library import FUNCTIONS, load

# A compiler that writes down each call and makes an empty file, so that tests of the cache take no time.
SCRIPT = """#!/bin/sh
echo run >> "$0.log"
[ -e "$0.fail" ] && { echo "kernel.c:3: error: something odd" >&2; exit 1; }
while [ $# -gt 0 ]; do [ "$1" = -o ] && { shift; sleep 0.02; echo made > "$1"; }; shift; done
"""


@pytest.fixture
def scripted(tmp_path, monkeypatch):
    """A scripted compiler as $CC and a cache folder of its own."""
    script = tmp_path / "cc"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    monkeypatch.setenv("CC", f"{script} -Ifolder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return script


def runs(script):
    log = script.with_name("cc.log")
    return log.read_text().count("run") if log.exists() else 0


def test_the_library_has_every_declared_function():
    for name in FUNCTIONS:
        assert getattr(library(), name).argtypes is not None
    assert set(cpu_features()) >= {"avx512vnni", "fma"}


def test_compiles_once_and_again_when_something_changes(scripted):
    first = library_path()
    assert first.read_text() == "made\n"
    assert first.parent == build.cache_folder()
    once = runs(scripted)
    assert once > 1
    assert library_path() == first
    assert runs(scripted) == once
    assert library_path(extra_flags=["-O1"]) != first
    os.utime(scripted, (1, 1))
    assert library_path() != first
    assert [p.suffix for p in build.cache_folder().iterdir() if p.name != "lock"] == [".so"] * 3


def test_sources_are_part_of_the_name(scripted, tmp_path, monkeypatch):
    first = library_path()
    copied = tmp_path / "csrc"
    copied.mkdir()
    for source in build.source_files():
        (copied / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(build, "SOURCES", copied)
    assert library_path() == first
    (copied / "simd.h").write_text("/* other */")
    assert library_path() != first


@pytest.mark.processes
def test_processes_that_start_together_compile_once(scripted):
    # The module alone: the package would load torch.
    code = (
        "import importlib.util, sys; spec = importlib.util.spec_from_file_location('build', sys.argv[1]);"
        "module = importlib.util.module_from_spec(spec); sys.modules['build'] = module;"
        "spec.loader.exec_module(module); print(module.library_path())"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    together = [
        subprocess.Popen(
            [sys.executable, "-c", code, build.__file__], stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(3)
    ]
    paths = {process.communicate(timeout=60)[0].strip() for process in together}
    assert len(paths) == 1
    alone = runs(scripted)
    assert alone == len([p for p in build.source_files() if p.suffix == ".c"]) + 1


def test_a_processor_named_in_cc_stands(scripted, monkeypatch):
    seen = []
    monkeypatch.setattr(build, "_run", lambda command: seen.append(command) or "stop")
    for words, expected in (("", 3), (" -march=haswell", 1)):
        monkeypatch.setenv("CC", f"{scripted}{words}")
        with pytest.raises(ConfigError):
            library_path()
        tunings = {tuple(w for w in command if w.startswith(("-march", "-mcpu"))) for command in seen}
        assert len(tunings) == expected
        seen.clear()


def test_a_failing_compiler_is_named_with_its_first_error(scripted):
    scripted.with_name("cc.fail").touch()
    with pytest.raises(ConfigError, match="something odd.*set CC to another"):
        library_path()
    assert [p.name for p in build.cache_folder().iterdir()] == ["lock"]


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="install gcc or clang, set CC, or run `pip install ziglang`"):
        find_compiler()
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(build.importlib.metadata, "version", lambda name: "0.15")
    assert find_compiler() == Compiler((sys.executable, "-m", "ziglang", "cc"), "ziglang 0.15")
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    with pytest.raises(ConfigError, match="no-such-compiler"):
        find_compiler()


def test_a_cache_folder_that_cannot_be_written(scripted, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        library_path()


@pytest.mark.slow
def test_the_zig_wheel_compiles_the_kernels(monkeypatch):
    pytest.importorskip("ziglang")
    compiler = Compiler((sys.executable, "-m", "ziglang", "cc"), "ziglang in a test")
    loaded = load(library_path(compiler=compiler))
    assert loaded.sgr_features() == library().sgr_features()
