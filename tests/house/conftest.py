"""What the house tests look at: every source file, parsed once."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """One Python file of the repository."""

    path: Path
    name: str  # relative to the repository
    module: str  # dotted, for files of the package
    text: str
    tree: ast.Module


def _read(folder: str) -> list[Source]:
    sources = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT / folder).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        sources.append(Source(path, str(path.relative_to(ROOT)), module, text, ast.parse(text)))
    return sources


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def package() -> list[Source]:
    """Files of the package."""
    return _read("src")


@pytest.fixture(scope="session")
def everything(package: list[Source]) -> list[Source]:
    """Files of the package, the tests and the scripts."""
    return [*package, *_read("tests"), *_read("scripts")]
