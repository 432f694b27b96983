"""Rewrites every figures block of README and docs from the records in benchmarks/results/ (`make figures`)."""

from pathlib import Path

from saguaro.records import fill_files

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    pages = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    changed = fill_files(pages, ROOT / "benchmarks" / "results")
    print("\n".join(f"rewritten: {path.relative_to(ROOT)}" for path in changed) or "every figure is up to date")
