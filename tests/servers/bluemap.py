"""A rule by which a `misbehaving` server answers as BlueMap's own does, over the folder of a published map.

It follows files of BlueMap-Minecraft/BlueMap below
`common/src/main/java/de/bluecolored/bluemap/common/web/`:

- `MapStorageRequestHandler.java` at commit 70e7fa7: a tile that is missing is 204 (77-79), one that is there
  has `Cache-Control: public, max-age=86400` and no validators (81-89), what is neither a tile
  (`TILE_PATTERN`, 55) nor listed (93-99) is 404 (115), and nothing looks at the method;
- `http/HttpResponseOutputStream.java` at 3a459bc: every body is sent in chunks, whatever the method was
  (50-76);
- `FileRequestHandler.java` at 75a5864: methods other than GET are 400 (55-56), missing files 404 (98-100),
  and others have ETag and Last-Modified (136-143).
"""

from __future__ import annotations

import re
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from tests.servers.rules import raw

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

    from tests.servers.misbehaving import Exchange, Rule

_TILE: Final = re.compile(r"tiles/([\d/]+)/x(-?[\d/]+)z(-?[\d/]+).*", re.ASCII)
"""`TILE_PATTERN`. Whatever does not match it and is no settings is not found: so are the render states."""


def own_server(folder: Path) -> Rule:
    """Answers as that server does. The connection is closed after each answer, as a body that answers HEAD
    would stand before the next."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        path, is_get = exchange.path.lstrip("/"), exchange.request.method == "GET"
        is_of_map = path.startswith("maps/")
        status, headers, body = _of_map(folder, path) if is_of_map else _file(folder, path, is_get=is_get)
        # `BlueMapResponseModifier` gives a body to failures alone.
        body = b"BlueMap/5.22" if status >= 400 else body
        length = "Content-Length: 0" if body is None else "Transfer-Encoding: chunked"
        given = [f"{name}: {value}" for name, value in headers.items()]
        lines = [f"HTTP/1.1 {status} X", *given, length, "Connection: close"]
        chunks = b"" if body is None else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        return await raw("\r\n".join([*lines, "", ""]).encode() + chunks)(exchange)

    return answer


def _of_map(folder: Path, path: str) -> tuple[int, dict[str, str], bytes | None]:
    inner, file = path.split("/", 2)[-1], folder / path
    is_tile = _TILE.fullmatch(inner) is not None
    if not (is_tile or inner == "settings.json") or not file.is_file():
        return 204 if is_tile else 404, {}, None
    kind = "image/png" if is_tile else "application/json"
    return 200, {"Content-Type": kind, "Cache-Control": "public, max-age=86400"}, file.read_bytes()


def _file(folder: Path, path: str, *, is_get: bool) -> tuple[int, dict[str, str], bytes | None]:
    """`FileRequestHandler`: the page and its settings."""
    file = folder / (path or "index.html")
    if not is_get or not file.is_file():
        return 404 if is_get else 400, {}, None
    modified = formatdate(file.stat().st_mtime, usegmt=True)
    return 200, {"ETag": f"{file.stat().st_size:x}", "Last-Modified": modified}, file.read_bytes()
