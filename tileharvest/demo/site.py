"""A web server for the demo's site, which answers as nginx answers for a folder of files."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_HOST: Final = "127.0.0.1"
_TYPES: Final = {".png": "image/png", ".js": "application/javascript", ".html": "text/html"}


@dataclass(frozen=True, slots=True)
class RunningSite:
    """Where a site can be visited."""

    url: str
    """Ends in a slash."""


@asynccontextmanager
async def serve(folder: Path, port: int = 0) -> AsyncIterator[RunningSite]:
    """Serve the folder to this computer alone, until the block is left. Port 0: any free one.

    Files may change meanwhile: each answer tells the file's state at that moment. Raises OSError when the
    port is taken.
    """
    runner = web.AppRunner(application(folder), access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, port).start()
        yield RunningSite(f"http://{_HOST}:{runner.addresses[0][1]}/")
    finally:
        await runner.cleanup()


def application(folder: Path) -> web.Application:
    """GET and HEAD for the files of a folder and of those below it; 404 for all else, folders included."""
    root = folder.resolve()

    async def answer(request: web.Request) -> web.Response:
        path = _file_at(root, request.match_info["path"])
        if path is None:
            raise web.HTTPNotFound
        return _answer(request, path)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    return app


def entity_tag(modified: int, size: int) -> str:
    """nginx's ETag of a file: time in seconds since 1970 and size in bytes, in hexadecimal
    (`ngx_http_set_etag` of its source).
    """
    return f'"{modified:x}-{size:x}"'


def _file_at(root: Path, path: str) -> Path | None:
    """The file of a decoded path; None if there is none, or if it lies, links followed, outside the root."""
    if path.endswith("/"):
        return None
    try:
        file = (root / path).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, ValueError):  # names that no file can have: too long, or with a NUL in them
        return None


def _answer(request: web.Request, path: Path) -> web.Response:
    status = path.stat()
    tag = entity_tag(int(status.st_mtime), status.st_size)
    headers = {"ETag": tag, "Last-Modified": formatdate(int(status.st_mtime), usegmt=True)}
    if _is_known(request, tag):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = _TYPES.get(path.suffix, "application/octet-stream")
    return web.Response(body=path.read_bytes(), headers=headers)


def _is_known(request: web.Request, tag: str) -> bool:
    """Whether If-None-Match names this state, compared weakly (RFC 9110, section 13.1.2)."""
    asked = request.headers.get("If-None-Match", "")
    return asked.strip() == "*" or tag in (part.strip().removeprefix("W/") for part in asked.split(","))
