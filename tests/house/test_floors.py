"""The floors of the house: a file imports its own package and strictly lower floors, `TYPE_CHECKING` included.

This table is the only authority (ADR 0001); changing it needs an ADR.
"""

import ast

FLOORS = {
    "errors": 0,
    "registry": 0,
    "request": 0,
    "config": 0,
    "profile": 0,
    "theory": 1,
    "algorithm": 2,
    "device": 3,
    "paging": 3,
    "protocol": 3,
    "simulate": 3,
    "native": 3,
    "attention": 4,
    "transport": 4,
    "models": 5,
    "execution": 6,
    "drafting": 7,
    "engine": 8,
    "choices": 9,
    "async_clients": 9,
    "llm": 9,
    "async_llm": 9,
    "records": 9,
    "workloads": 9,
    "server": 10,
    "bench": 10,
    "figures": 10,
    "calibrate": 10,
    "planner": 10,
    "training": 10,
    "cli": 11,
    "__main__": 12,
}
GROUND = {name for name, floor in FLOORS.items() if floor == 0}  # one package in all but name
SHARED = {  # what both faces need, and the other half of one; the faces do not import each other (ADR 0001)
    "choices": {"llm", "async_llm", "async_clients"},
    "async_clients": {"async_llm"},
}
TEST_KIT = "testing"  # may import floors 0 to 9; only tests import it


def imports(tree: ast.Module) -> set[str]:
    """Rooms of the package that a file imports: the second part of each `saguaro.x...`."""
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("saguaro.")}
    return found


def complaint(room: str, imported: str) -> str | None:
    if imported == room or (imported not in FLOORS and imported != TEST_KIT):
        return None  # its own package, or a name of saguaro/__init__ (checked by test_public_names)
    if imported == TEST_KIT:
        return f"{room} imports the test kit"
    if room == TEST_KIT:
        return f"the test kit imports {imported} of floor {FLOORS[imported]}" if FLOORS[imported] > 9 else None
    if (room in GROUND and imported in GROUND) or room in SHARED.get(imported, ()) or FLOORS[imported] < FLOORS[room]:
        return None
    return f"{room} (floor {FLOORS[room]}) imports {imported} (floor {FLOORS[imported]})"


def test_every_file_has_a_floor(package):
    rooms = {source.module.split(".")[1] for source in package if "." in source.module}
    assert rooms <= {*FLOORS, TEST_KIT}


def test_no_import_goes_up_or_sideways(package):
    found = []
    for source in package:
        if "." not in source.module:
            continue  # saguaro/__init__ names what is public
        room = source.module.split(".")[1]
        found += [f"{source.name}: {why}" for name in imports(source.tree) if (why := complaint(room, name))]
    assert not found, "\n".join(found)


def test_only_the_face_is_imported_by_its_short_name(package):
    """`from saguaro import LLM` inside the package would hide an import from the table; the command line may use it."""
    found = [
        source.name
        for source in package
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.module == "saguaro" and not source.module.startswith("saguaro.cli")
        if any(alias.name not in {*FLOORS, TEST_KIT} for alias in node.names)
    ]
    assert not found


def test_theory_and_ground_know_no_torch(package):
    for source in package:
        room = source.module.split(".")[1] if "." in source.module else ""
        if room in GROUND or room == "theory":
            assert "torch" not in {name.split(".")[0] for name in _outside(source.tree)}, source.name


def test_the_rule_itself():
    assert complaint("engine", "models") is None
    assert complaint("models", "engine")
    assert complaint("attention", "transport")
    assert complaint("config", "errors") is None
    assert complaint("config", "theory")
    assert complaint("llm", "choices") is None
    assert complaint("choices", "llm")
    assert complaint("async_llm", "llm")
    assert complaint("testing", "engine") is None
    assert complaint("testing", "cli")
    assert complaint("engine", "testing")


def _outside(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found
