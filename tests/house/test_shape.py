"""Sizes and names of files and functions, and where words may stand."""

import ast
import re

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
# The word may appear in these rooms and nowhere else; everything else speaks to a Device.
ACCELERATOR_FILES = re.compile(r"src/saguaro/(device/\w+|attention/(__init__|triton\w*|flashinfer)|config)\.py$")
MAX_ACCELERATOR_FILES = 6
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".c", ".h", ".yml", ".cfg", ""}


def test_files_are_short(everything, root):
    native = [*root.glob("src/**/*.c"), *root.glob("src/**/*.h")]
    sizes = {source.name: source.text.count("\n") for source in everything}
    sizes |= {str(path.relative_to(root)): path.read_text(encoding="utf-8").count("\n") for path in native}
    assert not {name: lines for name, lines in sizes.items() if lines > MAX_FILE_LINES}


def test_functions_are_short(everything):
    found = {}
    for source in everything:
        for node in ast.walk(source.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    found[f"{source.name}:{node.name}"] = lines
    assert not found


def test_file_names_say_what_is_inside(everything):
    assert not [source.name for source in everything if BANNED_NAMES & set(source.path.with_suffix("").parts)]


def test_every_module_says_what_it_holds(package):
    assert not [source.name for source in package if not ast.get_docstring(source.tree)]


def test_only_the_command_line_prints(package):
    found = []
    for source in package:
        if source.module.startswith("saguaro.cli"):
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                found.append(f"{source.name}:{node.lineno}")
    assert not found


def test_only_the_command_line_reads_the_environment(package):
    """`os.environ` may be copied for a child process, but no setting is taken from it below the command line."""
    found = []
    for source in package:
        if source.module.startswith("saguaro.cli"):
            continue
        for node in ast.walk(source.tree):
            text = ast.unparse(node) if isinstance(node, (ast.Call, ast.Subscript)) else ""
            if re.match(r"(os\.)?(environ\.get|environ\[|getenv)\b", text) and "SAGUARO" in text:
                found.append(f"{source.name}:{node.lineno}")
    assert not found


def test_accelerators_are_named_in_few_files(package):
    named = [source.name for source in package if "cuda" in source.text.lower()]
    assert not [name for name in named if not ACCELERATOR_FILES.search(name)]
    assert len(named) <= MAX_ACCELERATOR_FILES


def test_no_path_of_one_machine_and_no_registry_host(root):
    """Text that is true on one machine only must not land."""
    hosts = "|".join((r"pypi\." + "org", "python" + "hosted", r"registry\.npm" + "js", r"deb\.deb" + "ian"))
    wrong = re.compile(rf"(?<![\w.~])/(root|work|opt/pypi|home/\w+|tmp/\w+)(/|\b)|{hosts}")
    found = []
    for path in _tracked(root):
        text = path.read_text(encoding="utf-8")
        for match in wrong.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path.relative_to(root)}:{line}: {match.group(0)}")
    assert not found, "\n".join(found)


def _tracked(root):
    """Text files of the repository that are not prompts, licences or this file."""
    folders = ("src", "tests", "docs", "scripts", "benchmarks", "examples", ".ci")
    files = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    files += [path for path in root.iterdir() if path.is_file() and path.name not in {"LICENSE", ".git"}]
    skip = {"__pycache__", ".hypothesis", "prompts", "results"}
    return [
        path
        for path in files
        if path.suffix in TEXT_SUFFIXES and not skip & set(path.parts) and path.name != "test_shape.py"
    ]
