"""Plug points: a folder with `base.py`, a short file a member and a Table in `__init__.py`; no member is forgotten."""

import ast
import importlib
import pkgutil

import pytest

import saguaro
from saguaro.registry import Table

# Files of a plug folder that several members share and that are no members themselves, each with its reason.
SHARED: dict[str, set[str]] = {}


def plug_packages() -> list[str]:
    """Packages with a `base` module."""
    modules = [info.name for info in pkgutil.walk_packages(saguaro.__path__, "saguaro.", onerror=lambda name: None)]
    return sorted(name.removesuffix(".base") for name in modules if name.endswith(".base"))


def tables(package: str) -> dict[str, Table]:
    module = importlib.import_module(package)
    return {name: value for name, value in vars(module).items() if isinstance(value, Table)}


@pytest.mark.parametrize("package", plug_packages())
def test_every_member_is_in_its_table(package):
    paths = [path for table in tables(package).values() for path in table._members.values()]
    rows = {path.partition(":")[0] for path in paths}
    files = {info.name for info in pkgutil.iter_modules(importlib.import_module(package).__path__, package + ".")}
    members = files - {f"{package}.base"} - {f"{package}.{name}" for name in SHARED.get(package, set())}
    assert paths, f"{package} has a base.py and no Table in its __init__.py"
    assert members <= rows, "in no table"
    assert {row for row in rows if row.startswith(package + ".")} <= files, "rows without a file"


@pytest.mark.parametrize("package", plug_packages())
def test_every_row_names_something_that_exists(package, root):
    """By parsing, so that a member that needs an accelerator or an extra is checked everywhere."""
    for table in tables(package).values():
        for path in table._members.values():
            module, _, attribute = path.partition(":")
            file = root / "src" / (module.replace(".", "/") + ".py")
            names = {
                getattr(node, "name", None) or getattr(getattr(node, "targets", [None])[0], "id", None)
                for node in ast.parse(file.read_text(encoding="utf-8")).body
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.Assign))
            }
            assert attribute in names, path
