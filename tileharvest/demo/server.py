"""The web server of the demo's site. It answers as nginx does for a folder of files."""

from __future__ import annotations

from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_HOST: Final = "127.0.0.1"
_TYPES: Final = {".png": "image/png", ".js": "application/javascript", ".html": "text/html"}


@asynccontextmanager
async def serve(folder: Path, port: int = 0) -> AsyncIterator[str]:
    """Serves the folder to this computer alone until the block is left. Port 0 means any free port.

    Yields the address of the folder, which ends in a slash. Files may change meanwhile: each answer tells the
    file's state at that moment. Raises OSError when the port is taken.
    """
    runner = web.AppRunner(application(folder), access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, port).start()
        yield f"http://{_HOST}:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


def application(folder: Path) -> web.Application:
    """Returns an application that answers GET and HEAD for the files of a folder and of the folders below.

    It answers 404 for all else, folders included.
    """
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
    """Returns the ETag that nginx gives a file (`ngx_http_set_etag` in its source).

    It holds the modification time in seconds since 1970 and the size in bytes, both in hexadecimal.
    """
    return f'"{modified:x}-{size:x}"'


def _file_at(root: Path, path: str) -> Path | None:
    """Returns the file of a decoded path, or None when there is none.

    Links are followed. A file that then lies outside of the root does not count.
    """
    if path.endswith("/"):
        return None
    try:
        file = (root / path).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, ValueError):  # No file can have this name: it is too long, or has a NUL in it.
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
    """Tells whether If-None-Match names this state. ETags are compared weakly (RFC 9110, section 13.1.2)."""
    asked = request.headers.get("If-None-Match", "")
    return asked.strip() == "*" or tag in (part.strip().removeprefix("W/") for part in asked.split(","))
