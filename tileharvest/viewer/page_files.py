"""The page's files, read once when the server starts: afterwards no request reaches the disk for them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.viewer.answers import AFTER_ASKING, Answer, tag_of, tagged

if TYPE_CHECKING:
    from tileharvest.viewer.answers import Caller

FOLDER: Final = Path(__file__).with_name("page")
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
    """The body compressed, where that makes it smaller."""

    def answer(self, caller: Caller) -> Answer:
        headers = {"Content-Type": self.kind, "Cache-Control": AFTER_ASKING, "Vary": "Accept-Encoding"}
        return tagged(self.body, self.tag, headers, caller, self.zipped)


def page_files(folder: Path = FOLDER) -> dict[str, PageFile]:
    """The files of the folder and of those below it, by their path in it, such as `leaflet/leaflet.css`.

    Hidden files and those of other kinds than a page has are left out. Raises OSError for a file that
    cannot be read; a folder that is missing has none.
    """
    kinds = _TEXTS | _PICTURES
    found = {file.relative_to(folder): file for file in sorted(folder.rglob("*"))}
    return {
        name.as_posix(): _read(file, kinds[file.suffix])
        for name, file in found.items()
        if file.suffix in kinds and file.is_file() and not any(part.startswith(".") for part in name.parts)
    }


def _read(file: Path, kind: str) -> PageFile:
    body = file.read_bytes()
    zipped = gzip.compress(body, mtime=0) if file.suffix in _TEXTS else body
    return PageFile(body, kind, tag_of(body), zipped if len(zipped) < len(body) else None)
