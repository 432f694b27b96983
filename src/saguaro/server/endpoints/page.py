"""The page at `/` and its files, which are read once: what the page does is in `saguaro/server/page/`.

Every file is plain text of this package; nothing is loaded from another host, and the headers forbid it. Must not know:
engines, how text is generated. Tests: tests/server/test_page.py, tests/server/test_page_in_browser.py.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

from saguaro.registry import nearest
from saguaro.server.errors import ApiError

FOLDER = Path(__file__).resolve().parents[1] / "page"
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    # Scripts, styles, pictures and requests of this server alone; nothing in line, no frame around the page.
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # a browser keeps the file and asks whether it is still this one
}


@dataclass(frozen=True)
class Asset:
    """A file of the page, as it is sent; `tag` changes with its content."""

    body: bytes
    media_type: str
    tag: str


def read_assets() -> dict[str, Asset]:
    """The files of the page by name."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            body = path.read_bytes()
            found[path.name] = Asset(body, TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found


def routes() -> APIRouter:
    """The paths of the page."""
    router = APIRouter()
    assets = read_assets()

    @router.get("/", response_class=Response, tags=["page"])
    async def page(http: Request) -> Response:
        """A page to chat with the model and to see what speculation does."""
        return _sent(assets[INDEX], http)

    @router.get("/page/{name}", response_class=Response, tags=["page"])
    async def part(name: str, http: Request) -> Response:
        """A file of the page."""
        if name not in assets:
            raise ApiError(404, f"the page has no file {name!r}{nearest(name, assets) or '.'}", code="unknown_path")
        return _sent(assets[name], http)

    return router


def _sent(asset: Asset, http: Request) -> Response:
    headers = {**HEADERS, "etag": asset.tag}
    known = [tag.strip().removeprefix("W/") for tag in http.headers.get("if-none-match", "").split(",")]
    if asset.tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)
