"""The files of the viewer's page, which are read once, when the server starts."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from tileharvest.export.published_page import without_comments
from tileharvest.viewer.replies import AFTER_ASKING, tag_of, tagged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from aiohttp import web

FOLDER: Final = resources.files("tileharvest.viewer").joinpath("page")
"""The page's folder. It is read as a resource, because on scrapyd it lies in a zipped egg."""
INDEX: Final = "index.html"

_TEXTS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    "": "text/plain; charset=utf-8",
}
_MODULE: Final = ".js"
_PICTURES: Final = {
    ".ico": "image/x-icon",
    ".png": "image/png",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page as it was when the server started."""

    body: bytes
    kind: str
    """Its media type."""
    tag: str
    zipped: bytes | None
    """The compressed body, or None if compression does not make it smaller."""

    def answer(self, request: web.BaseRequest) -> web.Response:
        headers = {"Content-Type": self.kind, "Cache-Control": AFTER_ASKING}
        return tagged(self.body, self.tag, headers, request, self.zipped)


def page_files(folder: Traversable = FOLDER) -> dict[str, PageFile]:
    """Returns the files of the folder and of the folders in it by their path, such as `leaflet/leaflet.css`.
    Modules have no comments.

    Hidden files, and files of kinds that no page has, are left out. A missing folder has no files. Raises
    OSError for a file that cannot be read.
    """
    return dict(sorted(_below(folder, ""))) if folder.is_dir() else {}


def _below(folder: Traversable, above: str) -> Iterator[tuple[str, PageFile]]:
    for part in folder.iterdir():
        if part.name.startswith("."):
            continue
        suffix = PurePath(part.name).suffix
        if part.is_dir():
            yield from _below(part, f"{above}{part.name}/")
        elif suffix in _TEXTS or suffix in _PICTURES:
            yield above + part.name, _read(part.read_bytes(), suffix)


def _read(body: bytes, suffix: str) -> PageFile:
    if suffix in _PICTURES:
        return PageFile(body, _PICTURES[suffix], tag_of(body), None)
    if suffix == _MODULE:
        body = without_comments(body.decode()).encode()
    zipped = gzip.compress(body, mtime=0)
    return PageFile(body, _TEXTS[suffix], tag_of(body), zipped if len(zipped) < len(body) else None)
