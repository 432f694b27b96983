"""Figures in README and docs come from records, and are up to date."""

import pytest

from saguaro.records import BLOCK, fill, read_record


def pages(root):
    return [*root.glob("README*.md"), *sorted((root / "docs").rglob("*.md"))]


def test_blocks_are_up_to_date(root):
    stale = [
        path.name for path in pages(root) if fill(text := path.read_text("utf-8"), root / "benchmarks/results") != text
    ]
    assert not stale, f"run `make figures`: {stale}"


def test_every_opened_block_is_closed(root):
    for path in pages(root):
        text = path.read_text("utf-8")
        assert text.count("<!-- figures:") == len(BLOCK.findall(text)), path.name


def test_readme_has_measured_speeds(root):
    assert BLOCK.search((root / "README.md").read_text("utf-8"))


def test_every_record_can_be_read(root):
    for path in (root / "benchmarks/results").glob("*.json"):
        record = read_record(path)
        assert record.get("machine"), f"{path.name} does not say what machine it was measured on"
        assert record.get("versions"), f"{path.name} does not say with which versions"


@pytest.mark.parametrize("text", ["none", "<!-- figures:absent -->\nold\n<!-- /figures -->"])
def test_fill_changes_blocks_only(text, tmp_path):
    filled = fill(f"before\n{text}\nafter", tmp_path)
    assert filled.startswith("before\n")
    assert filled.endswith("\nafter")
    assert ("old" in filled, "No record `absent` yet" in filled) == (False, "absent" in text)
