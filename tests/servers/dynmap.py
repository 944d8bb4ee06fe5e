"""A rule by which a `misbehaving` server answers as Dynmap's own server does.

The folder is that of a published map, whose tiles are as `FileTreeMapStorage.java` writes them. Lines are
those of webbukkit/dynmap: below `DynmapCore/src/main/java/org/dynmap/` of
`servlet/MapStorageResourceHandler.java` at commit 460e6f9 and of `storage/filetree/FileTreeMapStorage.java`
at 076fada.
"""

from __future__ import annotations

import io
import zlib
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from PIL import Image as Pillow

from tests.servers.misbehaving import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

    from tests.servers.misbehaving import Exchange, Rule

CONFIGURATION: Final = "up/configuration"
_MOST_OUT: Final = 16


def blank() -> bytes:
    """`MapStorageResourceHandler.java` 33-42: 128 x 128 pixels of `TYPE_INT_ARGB`, untouched."""
    written = io.BytesIO()
    Pillow.new("RGBA", (128, 128)).save(written, "PNG")
    return written.getvalue()


def hash_of(tile: Path) -> int:
    """`FileTreeMapStorage.java` 129: `getImageHashCode(world.getName() + "." + map.getPrefix(), x, y)`.

    The key has no zoom, here as where a tile is written (160). The coarsest tile of these numbers was drawn
    last, so the hash is that one's.
    """
    place = tile.stem.lstrip("z").lstrip("_")
    coarser = [tile.with_name(f"{'z' * out}_{place}.png") for out in range(_MOST_OUT, 0, -1)]
    drawn_last = next(file for file in (*coarser, tile.with_name(f"{place}.png")) if file.exists())
    return zlib.crc32(drawn_last.read_bytes())


def own_server(folder: Path) -> Rule:
    """Answers as `MapStorageResourceHandler.java` does.

    - A tile has Last-Modified, Content-Length (120-126) and its hash as the ETag (99-107). If-None-Match must
      equal that to be answered by 304 (108-112); If-Modified-Since is not looked at.
    - A missing one is 200, a blank image (113-119), with the ETag `"305419896"` (`blankpnghash`, 31 and
      101-103).
    """
    missing = blank()

    async def answer(exchange: Exchange) -> web.StreamResponse:
        file = folder / exchange.path.lstrip("/")
        if exchange.path == f"/{CONFIGURATION}":
            body = file.read_bytes()
            return await exchange.send(Answer(200, {"Content-Type": "application/json"}, body))
        if not exchange.path.startswith("/tiles/"):
            return await exchange.send(Answer(404, {}))
        headers = {"Cache-Control": "max-age=0,must-revalidate", "Content-Type": "image/png"}
        if not file.is_file():
            headers["ETag"] = '"305419896"'
            return await exchange.send(Answer(200, headers, missing))
        headers["ETag"] = f'"{hash_of(file)}"'
        if exchange.request.headers.get("If-None-Match") == headers["ETag"]:
            return await exchange.send(Answer(304, {}))
        headers["Last-Modified"] = formatdate(file.stat().st_mtime, usegmt=True)
        return await exchange.send(Answer(200, headers, file.read_bytes()))

    return answer
