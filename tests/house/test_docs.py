"""Docs say what is there: links lead somewhere, Python parses, commands and their flags exist."""

import ast
import re

from saguaro.cli.main import COMMANDS, build_parser

LINK = re.compile(r"\[[^\]]+\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
CODE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def pages(root):
    return [*root.glob("*.md"), *sorted((root / "docs").rglob("*.md")), *(root / "benchmarks").rglob("*.md")]


def test_links_lead_somewhere(root):
    broken = [
        f"{page.relative_to(root)}: {match[1]}"
        for page in pages(root)
        for match in LINK.finditer(page.read_text("utf-8"))
        if not (page.parent / match[1]).exists()
    ]
    assert not broken


def test_python_examples_parse(root):
    for page in pages(root):
        for kind, code in CODE.findall(page.read_text("utf-8")):
            if kind == "python":
                ast.parse(code)


def commands_shown(root):
    for page in pages(root):
        for _, code in CODE.findall(page.read_text("utf-8")):
            for line in code.replace("\\\n", " ").splitlines():
                if match := re.match(r"\s*saguaro ([a-z-]+)(.*)", line.split("  #")[0]):
                    yield page.name, match[1], re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", match[2])


def test_commands_and_flags_exist(root):
    shown = list(commands_shown(root))
    assert shown
    for page, command, flags in shown:
        assert command in COMMANDS, f"{page}: saguaro {command}"
        assert set(flags) <= set(build_parser(command).known()), f"{page}: {command} {flags}"
