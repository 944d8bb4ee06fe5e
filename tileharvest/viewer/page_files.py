"""The files of the viewer's page, which are read once, when the server starts."""

from __future__ import annotations

import gzip
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, TypeAlias

from tileharvest.export.published_page import served_modules
from tileharvest.viewer.replies import AFTER_ASKING, tagged

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

FileAnswer: TypeAlias = "Callable[[web.BaseRequest], web.Response]"

FOLDER: Final = Path(__file__).parent / "page"
INDEX: Final = "index.html"

_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_LIBRARY: Final = "leaflet"
"""The folder of a script that is not one of our modules."""
_WITHOUT_SERVER: Final = "published"
"""The folder of modules for pages without a server."""


def page_files(folder: Path = FOLDER) -> dict[str, FileAnswer]:
    """Returns the answers with the files of the folder, and of the folders in it, by their path, such as
    `leaflet/leaflet.css`. The modules are scripts (`served_modules`).

    Files of kinds that no page has, and those for pages without a server, are left out. Raises OSError for a
    file that cannot be read.
    """
    modules: dict[str, str] = {}
    bodies: dict[str, bytes] = {}
    for file in sorted(folder.rglob("*.*")):
        inside = file.relative_to(folder)
        if file.suffix not in _KINDS or inside.parts[0] == _WITHOUT_SERVER:
            continue
        if file.suffix == ".js" and inside.parts[0] != _LIBRARY:
            modules[inside.as_posix()] = file.read_text(encoding="utf-8")
        else:
            bodies[inside.as_posix()] = file.read_bytes()
    scripts = {name: text.encode() for name, text in served_modules(modules).items()}
    return {name: _answer(name, body) for name, body in (bodies | scripts).items()}


def _answer(name: str, body: bytes) -> FileAnswer:
    """Returns a function that answers with a file, which is compressed now if that makes it smaller."""
    kind = _KINDS[PurePath(name).suffix]
    zipped = None if kind == "image/png" else gzip.compress(body, mtime=0)
    smaller = zipped if zipped and len(zipped) < len(body) else None
    headers = {"Content-Type": kind, "Cache-Control": AFTER_ASKING}
    return lambda request: tagged(body, headers, request, smaller)
