"""`import saguaro` is light, and its names are sorted, complete and real."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import saguaro

HEAVY = (
    "torch", "llguidance", "numpy", "transformers", "tokenizers", "gguf", "safetensors", "rich", "huggingface_hub",
    "matplotlib", "fastapi", "uvicorn", "prometheus_client", "pydantic", "prompt_toolkit", "markdown_it",
)  # fmt: skip
PUBLIC = Path(saguaro.__file__)


@pytest.mark.parametrize(
    "module",
    [
        "saguaro",
        "saguaro.theory",
        "saguaro.config",
        "saguaro.device",
        "saguaro.cli.main",
        "saguaro.cli.serve",
        "saguaro.cli.chat",
        "saguaro.cli.top",
        "saguaro.workloads",
    ],
)
def test_import_is_light(module):
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert loaded == "[]"


def test_import_reads_no_environment_variable():
    code = (
        "import os, sys\n"
        "class Refusing(dict):\n"
        "    def __getitem__(self, key): raise SystemExit('read ' + str(key))\n"
        "    get = __contains__ = __getitem__\n"
        "os.environ = Refusing(); os.getenv = Refusing().get\n"
        "import saguaro, saguaro.config, saguaro.request, saguaro.theory\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_names_are_sorted():
    assert saguaro.__all__ == sorted(saguaro.__all__, key=_ruff_order)


@pytest.mark.parametrize("name", saguaro.__all__)
def test_names_are_real(name):
    value = getattr(saguaro, name)
    assert value.__module__.startswith("saguaro.")


def test_types_seen_by_checkers_are_the_same_names():
    tree = ast.parse(PUBLIC.read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    named = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named == set(saguaro.__all__)


def test_every_error_is_public():
    errors = importlib.import_module("saguaro.errors")
    names = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert names <= set(saguaro.__all__)


def test_unknown_name_and_version():
    with pytest.raises(AttributeError, match="no attribute 'LLMM'"):
        saguaro.LLMM  # noqa: B018
    assert saguaro.__version__.count(".") == 2
    assert "LLM" in dir(saguaro)


def _ruff_order(name: str) -> tuple[int, str]:
    """Constants first, then classes: the order that the linter keeps in `__all__`."""
    return (0 if name.isupper() else 1, name)
