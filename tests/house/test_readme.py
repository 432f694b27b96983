"""README.zh-CN.md is kept in step with README.md: headings, commands, figures and links are the same."""

import re

import pytest

NAMES = ("README.md", "README.zh-CN.md")
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def both(root):
    return [(root / name).read_text("utf-8") for name in NAMES]


def code(text):
    """The code blocks by language, without their comments."""
    return [(kind, re.sub(r"\s*#.*", "", body).splitlines()) for kind, body in CODE.findall(text)]


def headings(text):
    return [len(marks) for marks in re.findall(r"^(#+) ", CODE.sub("", text), re.MULTILINE)]


def figures(text):
    return re.findall(r"<!-- figures:[\w.-]+ -->\n.*?<!-- /figures -->", text, re.DOTALL)


def links(text):
    found = re.findall(r"\]\(([^)]+)\)", CODE.sub("", text))
    return sorted(each for each in found if each not in NAMES)


def tables(text):
    """Rows of each table, in order."""
    return [block.count("\n") for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


@pytest.mark.parametrize("part", [code, headings, figures, links, tables])
def test_both_have_the_same(both, part):
    english, chinese = map(part, both)
    assert english == chinese
    assert len(english) > 3


def test_each_names_the_other(both):
    for text, other in zip(both, reversed(NAMES), strict=True):
        assert f"]({other})" in text.split("\n## ")[0]


def test_the_chinese_one_is_chinese(both):
    prose = re.sub(r"<!-- figures.*?<!-- /figures -->", "", CODE.sub("", both[1]), flags=re.DOTALL)
    lines = [line for line in prose.splitlines() if len(line) > 40 and not line.startswith("|")]
    assert lines
    assert not [line for line in lines if not re.search("[\u4e00-\u9fff]", line)]
