"""The map from the paper to the code names only what exists, and leaves no statement out."""

import ast
import re

import pytest

CODE = re.compile(r"`(saguaro(?:\.\w+)+):([\w.]+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
STATEMENTS = [
    *(f"Theorem {n}" for n in (1, 7, 12, 15, 17, 18, 19)),
    *(f"Corollary {n}" for n in (8, 9, 16)),
    *(f"Definition {n}" for n in (2, 3, 4, 5, 6, 10, 11, 13, 14)),
]
LINES = range(1, 27)


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs/paper-map.md").read_text(encoding="utf-8")


def table_rows(page):
    """Cells of every table row that is neither a heading nor a rule."""
    rows = [
        [cell.strip() for cell in line.strip("|").split(" |")] for line in page.splitlines() if line.startswith("|")
    ]
    return [row for row in rows if not set(row[0]) <= {"-"} or not row[0]]


def names_of(path):
    """Top-level names of a file, and Class.method."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_every_function_exists(page, root):
    named = set(CODE.findall(page))
    assert len(named) > 40
    missing = []
    for module, name in sorted(named):
        path = root / "src" / (module.replace(".", "/") + ".py")
        path = path if path.exists() else path.with_suffix("") / "__init__.py"
        if not path.exists() or name not in names_of(path):
            missing.append(f"{module}:{name}")
    assert not missing


def test_every_test_exists(page, root):
    named = set(TEST.findall(page))
    assert len(named) > 40
    missing = [f"{path}::{name}" for path, name in sorted(named) if name not in names_of(root / path)]
    assert not missing


def test_every_reference_is_written_in_one_of_the_two_forms(page):
    loose = [word for word in re.findall(r"`([^`]*)`", page) if word.startswith(("saguaro.", "tests/"))]
    forms = re.compile(r"saguaro(\.\w+)+:[\w.]+|tests/[\w/]+\.py(::\w+)?")
    assert not [word for word in loose if not forms.fullmatch(word)]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_has_code_and_a_test(page, statement):
    rows = [row for row in table_rows(page) if re.match(rf"{statement}\b", row[0])]
    assert rows, f"{statement} has no row"
    for row in rows:
        assert CODE.search(row[1]), statement
        assert TEST.search(row[2]), statement


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_algorithm_1_has_a_row(page, line):
    assert sum(row[0] == str(line) for row in table_rows(page)) == 1


def test_every_line_of_algorithm_1_is_in_the_reference(root):
    text = (root / "src/saguaro/algorithm/reference.py").read_text(encoding="utf-8")
    comments = re.findall(r"#.*?\blines? ([\d, and]+)", text)
    numbers = {int(number) for comment in comments for number in re.findall(r"\d+", comment)}
    assert numbers == set(LINES)
