"""A server that answers as BlueMap's own does, over the folder of a published map.

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
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TILE: Final = re.compile(r"tiles/([\d/]+)/x(-?[\d/]+)z(-?[\d/]+).*", re.ASCII)
"""`TILE_PATTERN`. Whatever does not match it and is no settings is not found: so are the render states."""
_CHUNK: Final = 1024


class Asked(NamedTuple):
    """A request, and the status of its answer."""

    method: str
    path: str
    status: int


@dataclass(slots=True)
class OwnServer:
    """A running server."""

    folder: Path
    port: int = 0
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The address of the page, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def own_server(folder: Path) -> Iterator[OwnServer]:
    """Serves `folder` on a free loopback port until the block ends."""
    server = OwnServer(folder)

    class Handler(_Handler):
        own = server

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever, name="bluemap", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answers HEAD as GET, for nothing of BlueMap's that answers about maps looks at the method."""

    protocol_version = "HTTP/1.1"
    own: OwnServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].lstrip("/")
        if path.startswith("maps/"):
            self._of_map(path)
        else:
            self._file(path)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *what: object) -> None:
        """Writes nothing."""

    def _of_map(self, path: str) -> None:
        inner = path.split("/", 2)[-1]
        file = self.own.folder / path
        is_tile = _TILE.fullmatch(inner) is not None
        if not (is_tile or inner == "settings.json") or not file.is_file():
            self._missing(204 if is_tile else 404)
            return
        headers = {"Content-Type": "image/png" if is_tile else "application/json"}
        self._answer(200, headers | {"Cache-Control": "public, max-age=86400"}, file.read_bytes())

    def _file(self, path: str) -> None:
        """`FileRequestHandler`: the page and its settings."""
        if self.command != "GET":
            self._missing(400)
            return
        file = self.own.folder / (path or "index.html")
        if not file.is_file():
            self._missing(404)
            return
        modified = formatdate(file.stat().st_mtime, usegmt=True)
        self._answer(200, {"ETag": f"{file.stat().st_size:x}", "Last-Modified": modified}, file.read_bytes())

    def _missing(self, status: int) -> None:
        """`BlueMapResponseModifier` gives a body to failures alone."""
        self._answer(status, {}, b"BlueMap/5.22" if status >= 400 else None)

    def _answer(self, status: int, headers: dict[str, str], body: bytes | None) -> None:
        """`HttpResponseOutputStream.write`: in chunks, and to HEAD as well."""
        self.own.asked.append(Asked(self.command, f"/{self.path.lstrip('/')}", status))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header(*(("Content-Length", "0") if body is None else ("Transfer-Encoding", "chunked")))
        self.end_headers()
        if body is not None:
            for start in range(0, len(body), _CHUNK):
                part = body[start : start + _CHUNK]
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
