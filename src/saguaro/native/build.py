"""Compile the C kernels once for this processor and keep the library in the user's cache folder.

The file's name is a hash of the sources, the flags, the compiler and the processor's features, so a change of any of
them compiles anew, and nothing but files is looked at when the library is there already. Several processes may start
at once: one compiles while the others wait, and the finished file appears in one step.
Environment read here, on first use only: CC, XDG_CACHE_HOME.
Must not know: what the kernels compute. Tests: tests/native/test_build.py.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from saguaro.errors import ConfigError

SOURCES = Path(__file__).parent / "csrc"
# No contraction by the compiler: the fused steps are written out, so a row's bits do not depend on inlining.
FLAGS = ("-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden", "-fPIC", "-w")
TUNINGS = (("-march=native",), ("-mcpu=native",), ())
LIBRARIES = ("-lpthread", "-lm")


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the words that start it, and what tells its version apart without running it."""

    command: tuple[str, ...]
    identity: str


def find_compiler() -> Compiler:
    """$CC, else cc, gcc, clang on the path, else the `ziglang` package; raises ConfigError when there is none."""
    chosen = os.environ.get("CC", "").strip()
    for command in (shlex.split(chosen),) if chosen else (["cc"], ["gcc"], ["clang"]):
        found = shutil.which(command[0])
        if found:
            real = Path(found).resolve()
            status = real.stat()
            return Compiler((found, *command[1:]), f"{real} {status.st_size} {status.st_mtime_ns}")
    if chosen:
        raise ConfigError(f"the compiler CC={chosen!r} is not on the path; unset CC or name one that is.")
    if importlib.util.find_spec("ziglang") is not None:
        return Compiler((sys.executable, "-m", "ziglang", "cc"), f"ziglang {importlib.metadata.version('ziglang')}")
    raise ConfigError(
        "the CPU kernels need a C compiler: install gcc or clang, set CC, or run `pip install ziglang` in this Python."
    )


def library_path(*, compiler: Compiler | None = None, extra_flags: Sequence[str] = ()) -> Path:
    """Path of the compiled library, compiling it when the cache lacks it.

    compiler: None finds one. extra_flags: come after all others (tests use them to build for lesser processors).
    Raises ConfigError when there is no compiler, it fails, or the cache folder cannot be written.
    """
    compiler = compiler or find_compiler()
    folder = cache_folder()
    path = folder / f"kernels-{_fingerprint(compiler, extra_flags)}.so"
    if path.exists():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder / "lock"):
            if not path.exists():
                _compile(compiler, tuple(extra_flags), path)
    except OSError as error:
        raise ConfigError(
            f"the compiled kernels cannot be kept in {folder} ({error.strerror}); set XDG_CACHE_HOME to a writable one."
        ) from error
    return path


def cache_folder() -> Path:
    """`saguaro/native` under $XDG_CACHE_HOME, else under ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "saguaro" / "native"


def source_files() -> list[Path]:
    """The C sources and headers, sorted."""
    return sorted(p for p in SOURCES.iterdir() if p.suffix in (".c", ".h"))


def _fingerprint(compiler: Compiler, extra_flags: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for part in (*compiler.command, compiler.identity, *FLAGS, *extra_flags, _processor()):
        digest.update(part.encode() + b"\0")
    for source in source_files():
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def _processor() -> str:
    """Architecture and instruction sets, so that a home folder shared by machines holds one library for each kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    wanted = ("flags", "Features", "model name", "CPU part")
    found = {line.split(":")[0].strip(): line for line in reversed(lines) if line.split(":")[0].strip() in wanted}
    return " ".join([platform.machine(), platform.processor(), *(found[name] for name in sorted(found))])


def _compile(compiler: Compiler, extra_flags: tuple[str, ...], path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
        reason = ""
        # A processor named in $CC is the user's wish and stands.
        chosen = any(word.startswith(("-march=", "-mcpu=")) for word in (*compiler.command, *extra_flags))
        for tuning in ((),) if chosen else TUNINGS:
            made, error = _compile_into(Path(folder), [*compiler.command, *FLAGS, *tuning, *extra_flags])
            if made is not None:
                os.replace(made, path)
                return
            reason = reason or error
        raise ConfigError(
            f"the C compiler {' '.join(compiler.command)!r} cannot build the CPU kernels ({reason}); set CC to another."
        )


def _compile_into(folder: Path, command: list[str]) -> tuple[Path | None, str]:
    """The linked library, or None and why not. Files are compiled side by side: most of the time goes into two."""
    sources = [p for p in source_files() if p.suffix == ".c"]
    objects = [str(folder / f"{p.stem}.o") for p in sources]
    steps = [[*command, "-c", str(source), "-o", made] for source, made in zip(sources, objects, strict=True)]
    with ThreadPoolExecutor(max_workers=min(len(steps), os.cpu_count() or 1)) as pool:
        for error in pool.map(_run, steps):
            if error:
                return None, error
    made = folder / "kernels.so"
    error = _run([*command, "-shared", *objects, "-o", str(made), *LIBRARIES])
    return (None, error) if error or not made.exists() else (made, "")


def _run(command: list[str]) -> str:
    """Nothing when the command succeeds, else its first error line."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return "" if done.returncode == 0 else _last_error(done.stderr)


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no message"])[0][:300]


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold the lock file while compiling; where there are no such locks, two compile and the later rename wins."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
