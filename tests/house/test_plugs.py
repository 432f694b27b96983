"""Plug points: a folder with `base.py`, a short file a member and a Table in `__init__.py`; no member is forgotten."""

import ast
import importlib
import pkgutil

import pytest

import saguaro
from saguaro.registry import Table

PLUG_POINTS = {
    "saguaro.algorithm.fan_out",
    "saguaro.attention",
    "saguaro.drafting.drafters",
    "saguaro.drafting.fallbacks",
    "saguaro.models.families",
    "saguaro.models.layers",
    "saguaro.server.parsers",
    "saguaro.transport",
}
# Files of a plug folder that several members share and that are no members themselves.
SHARED: dict[str, set[str]] = {"saguaro.server.parsers": {"call_scanner", "calls"}}


def table_paths() -> dict[str, list[str]]:
    """For every package that defines a Table: the `module:attribute` of its rows."""
    found: dict[str, list[str]] = {}
    for info in pkgutil.walk_packages(saguaro.__path__, "saguaro.", onerror=lambda name: None):
        if info.ispkg:
            for value in vars(importlib.import_module(info.name)).values():
                if isinstance(value, Table):
                    found.setdefault(info.name, []).extend(value._members.values())
    return found


@pytest.fixture(scope="module")
def rows() -> list[str]:
    return [path for paths in table_paths().values() for path in paths]


def modules_of(package: str) -> set[str]:
    return {info.name for info in pkgutil.iter_modules(importlib.import_module(package).__path__, package + ".")}


def test_every_table_belongs_to_a_plug_point(rows):
    packages = {path.partition(":")[0].rpartition(".")[0] for path in rows}
    assert packages == PLUG_POINTS


@pytest.mark.parametrize("package", sorted(PLUG_POINTS))
def test_every_member_is_in_its_table(package, rows):
    listed = {path.partition(":")[0] for path in rows}
    members = modules_of(package) - {f"{package}.base"} - {f"{package}.{name}" for name in SHARED.get(package, set())}
    assert f"{package}.base" in modules_of(package)
    assert members <= listed, f"in no table: {members - listed}"


def test_every_row_names_something_that_exists(rows, root):
    """By parsing, so that a member that needs an accelerator or an extra is checked everywhere."""
    for path in rows:
        module, _, attribute = path.partition(":")
        file = root / "src" / (module.replace(".", "/") + ".py")
        body = ast.parse(file.read_text(encoding="utf-8")).body
        names = {node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        assigned = [node.targets[0] for node in body if isinstance(node, ast.Assign)]
        names |= {target.id for target in assigned if isinstance(target, ast.Name)}
        assert attribute in names, path
