"""Rewrites the tables of docs/api.md from the request models of the server (`make figures`)."""

from pathlib import Path

from saguaro.server.wire.table import fill

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"

if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    new = fill(text)
    PAGE.write_text(new, encoding="utf-8")
    print("docs/api.md is up to date" if new == text else "rewritten: docs/api.md")
