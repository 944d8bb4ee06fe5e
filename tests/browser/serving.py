"""A small server of the page's files, for tests of single modules: no data behind it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLANK: Final = "/blank"
"""An empty document of the same origin: the place to import modules from."""
_BLANK_PAGE: Final = b'<!doctype html><title>blank</title><link rel="icon" href="data:,">'

# What the machine's own list of types says differs from system to system; a module must be JavaScript.
_TYPES: Final = {
    "": "application/octet-stream",
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = _TYPES

    def do_GET(self) -> None:
        if self.path == BLANK:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(_BLANK_PAGE)))
            self.end_headers()
            self.wfile.write(_BLANK_PAGE)
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


@contextmanager
def files_server(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of 127.0.0.1; gives the address without a slash at its end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
