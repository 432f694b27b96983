"""Settings of the whole test suite: one compute thread a process, quiet environment, skips with reasons."""

import os

# Before torch is imported anywhere: tests share two cores, and worker processes inherit this.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Timings on shared cores say nothing about a property; examples are the same in every run.
settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


@pytest.fixture(scope="session")
def models_directory() -> Path:
    """Where the real GGUF models are: SAGUARO_MODELS, or the default of `saguaro pull`."""
    return Path(os.environ.get("SAGUARO_MODELS", "~/.cache/saguaro-models")).expanduser()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs an accelerator where there is none; torch is asked only if such a test was collected.

    With two workers (`make test`) a file stays with one of them, for its fixtures; all files that start processes stay
    with the same one, since each of their tests has as many busy processes as there are cores.
    """
    files = {item.path for item in items if item.get_closest_marker("processes")}
    for item in items:
        item.add_marker(pytest.mark.xdist_group("processes" if item.path in files else item.path.stem))
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no accelerator on this machine"))
