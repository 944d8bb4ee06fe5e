"""The files of the viewer's page, which are read once, when the server starts."""

from __future__ import annotations

import gzip
from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, TypeAlias

from tileharvest.export.published_page import served_modules
from tileharvest.viewer.replies import AFTER_ASKING, tag_of, tagged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from importlib.resources.abc import Traversable

    from aiohttp import web

FileAnswer: TypeAlias = "Callable[[web.BaseRequest], web.Response]"

FOLDER: Final = resources.files("tileharvest.viewer").joinpath("page")
"""The page's folder. It is read as a resource, because on scrapyd it lies in a zipped egg."""
INDEX: Final = "index.html"

_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    "": "text/plain; charset=utf-8",
}
_LIBRARY: Final = "leaflet/"
"""The folder of a script that is not one of our modules."""
_WITHOUT_SERVER: Final = "published"
"""The folder of modules for pages without a server."""


def page_files(folder: Traversable = FOLDER) -> dict[str, FileAnswer]:
    """Returns the answers with the files of the folder, and of the folders in it, by their path, such as
    `leaflet/leaflet.css`. The modules are scripts (`served_modules`).

    Hidden files, files of kinds that no page has, and those for pages without a server are left out. A
    missing folder has no files. Raises OSError for a file that cannot be read.
    """
    bodies = dict(_below(folder, "")) if folder.is_dir() else {}
    modules = {name: bodies.pop(name).decode() for name in list(bodies) if _is_module(name)}
    scripts = {name: text.encode() for name, text in served_modules(modules).items()}
    return {name: _answer(name, body) for name, body in sorted((bodies | scripts).items())}


def _below(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    for part in folder.iterdir():
        if part.name.startswith(".") or above + part.name == _WITHOUT_SERVER:
            continue
        if part.is_dir():
            yield from _below(part, f"{above}{part.name}/")
        elif PurePath(part.name).suffix in _KINDS:
            yield above + part.name, part.read_bytes()


def _is_module(name: str) -> bool:
    return name.endswith(".js") and not name.startswith(_LIBRARY)


def _answer(name: str, body: bytes) -> FileAnswer:
    """Returns a function that answers with a file, which is compressed now if that makes it smaller."""
    kind, tag = _KINDS[PurePath(name).suffix], tag_of(body)
    zipped = None if kind == "image/png" else gzip.compress(body, mtime=0)
    smaller = zipped if zipped and len(zipped) < len(body) else None
    headers = {"Content-Type": kind, "Cache-Control": AFTER_ASKING}
    return lambda request: tagged(body, tag, headers, request, smaller)
