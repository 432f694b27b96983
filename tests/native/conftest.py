"""Kernels built for a lesser processor, in the place of those for this one."""

import platform

import pytest

from saguaro.native import build, library


def use_kernels(monkeypatch, *extra_flags):
    """Every call of the package goes to a library built with these flags, until the test ends."""
    path = build.library_path(extra_flags=extra_flags)
    monkeypatch.setattr(build, "library_path", lambda: path)
    library.cache_clear()


@pytest.fixture
def portable_kernels(monkeypatch):
    """No vector instructions beyond what every processor of this architecture has."""
    base = {"x86_64": "-march=x86-64", "aarch64": "-march=armv8-a"}.get(platform.machine())
    if base is None:
        pytest.skip(f"no baseline is known for {platform.machine()}")
    use_kernels(monkeypatch, base)
    yield
    library.cache_clear()


@pytest.fixture
def avx2_kernels(monkeypatch):
    """As on x86 processors without AVX-512."""
    if not library().sgr_features().decode().count("avx2"):
        pytest.skip("this processor has no AVX2")
    use_kernels(monkeypatch, "-march=x86-64-v3")
    yield
    library.cache_clear()
