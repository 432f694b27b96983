"""Pictures of the page for docs/serving.md, from a running server: `page_pictures.py URL FOLDER [NAME ...]`.

Needs the extra `test-browser`, Pillow, and a Chromium on the path.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

QUESTION = "Write a Python function that checks whether a number is prime, and explain it in two sentences."
SHOTS = {
    "page": {"viewport": {"width": 1180, "height": 860}, "color_scheme": "light"},
    "page-dark": {"viewport": {"width": 1180, "height": 860}, "color_scheme": "dark"},
    "page-phone": {"viewport": {"width": 360, "height": 780}, "color_scheme": "dark", "is_mobile": True},
}
COLOURS = 64  # of a picture, which keeps it small


def main(url: str, folder: Path, names: list[str]) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in names or SHOTS:
            page = browser.new_page(**SHOTS[name])
            page.set_default_timeout(300_000)
            page.goto(url)
            page.fill("#seed", "7")
            page.fill("#max-tokens", "160")
            page.fill("#prompt", QUESTION)
            page.press("#prompt", "Enter")
            said(page, "#status", "The answer is complete.")
            page.wait_for_timeout(1000)
            if name == "page":
                page.click("#race")
                said(page, "#race-result", "Texts identical")
            page.evaluate("scrollTo(0, 0)")
            path = folder / f"{name}.png"
            page.screenshot(path=path, full_page=name == "page")
            Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
            page.close()
        browser.close()


def said(page, selector: str, words: str) -> None:
    """Wait until an element says something."""
    while words not in page.text_content(selector):
        page.wait_for_timeout(100)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
