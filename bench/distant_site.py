"""A generated site that is far away: each answer leaves a while after its request came.

    python -m bench.distant_site DEPTH SECONDS

The site tells when each HEAD for a tile arrived, and how much CPU the site itself has used.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvloop

from bench.far_server import far_site, question, serve
from bench.site import LAYER, config, count, image, tile_paths

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The requests that came to the site since the last look."""

    heads: list[float]
    """The arrival of each HEAD for a tile, in ascending seconds of the site's own clock."""
    gets: int
    """The number of GETs for tiles."""
    cpu: float
    """Seconds of CPU that the site has used since its start."""


class DistantSite:
    """The running server, seen from the bench."""

    def __init__(self, near: int, far: int, depth: int) -> None:
        self._near = near
        self.depth = depth
        self.tiles = count(depth)
        self.near_url = f"http://127.0.0.1:{near}"
        self.url = f"http://127.0.0.1:{far}"

    def asked(self) -> Arrivals:
        """Returns the requests since the last call, and begins to count anew."""
        return Arrivals(**question(self._near, "/.asked"))

    def heads(self) -> int:
        """Returns the number of HEADs for tiles since the last look.

        This costs the site little, however many there are.
        """
        return int(question(self._near, "/.heads"))

    def etags(self) -> dict[str, str]:
        """Returns the ETag of every tile, by address."""
        return {f"{self.url}/{path}": _etag(number) for number, path in enumerate(tile_paths(self.depth), 1)}


@contextmanager
def distant_site(depth: int, latency: float) -> Iterator[DistantSite]:
    """Runs a site on the server's core until the block ends. `latency` is in seconds."""
    with far_site("bench.distant_site", depth, latency) as (near, far):
        yield DistantSite(near, far, depth)


class _DistantAnswers:
    """The answers that both ports give."""

    def __init__(self, depth: int) -> None:
        self._heads = array("d")
        self._gets = 0
        page = _answer(config(depth).encode(), "application/javascript", 0)
        self._pages = {b"/overviewerConfig.js": page}
        self._tiles = {
            f"/{path}".encode(): _answer(image(number), "image/png", number)
            for number, path in enumerate((f"{LAYER}/base.png", *tile_paths(depth)))
        }

    def answer(self, request: bytes) -> bytes:
        method, path, _ = request.split(b" ", 2)
        if path.startswith(b"/."):
            return self._told(path)
        found = self._tiles.get(path)
        if found is None:
            found = self._pages.get(path, _NOTHING)
        elif method == b"HEAD":
            self._heads.append(time.monotonic())
        else:
            self._gets += 1
        head, body = found
        return head if method == b"HEAD" else head + body

    def _told(self, path: bytes) -> bytes:
        if path == b"/.heads":
            told: Any = len(self._heads)
        else:
            told = {"heads": list(self._heads), "gets": self._gets, "cpu": time.process_time()}
            self._heads, self._gets = array("d"), 0
        return b"".join(_answer(json.dumps(told).encode(), "application/json", 0))


def _etag(number: int) -> str:
    return f'"{number:x}"'


def _answer(body: bytes, kind: str, number: int) -> tuple[bytes, bytes]:
    """Returns the head and the body of an answer."""
    fields = (f"Content-Type: {kind}", f"Content-Length: {len(body)}", f"ETag: {_etag(number)}")
    return "\r\n".join(("HTTP/1.1 200 OK", "Server: bench", *fields, "", "")).encode(), body


_NOTHING: Final = (b"HTTP/1.1 404 Not Found\r\nServer: bench\r\nContent-Length: 0\r\n\r\n", b"")


if __name__ == "__main__":
    uvloop.run(serve(_DistantAnswers(int(sys.argv[1])).answer, float(sys.argv[2])))
