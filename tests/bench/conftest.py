"""Completions with known counters."""

from pathlib import Path

import pytest

from saguaro.request import Completion, RequestMetrics


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture
def completion():
    """Make a completion of `ids` whose counters are given."""

    def make(ids, **counters) -> Completion:
        return Completion("", list(ids), "length", [1], RequestMetrics(**counters), seed=0)

    return make
