"""A generated site that is far away: each answer leaves a while after it was asked for.

    python -m bench.distant DEPTH SECONDS

An own server, as nginx cannot wait and not every kernel can delay packets: all answers are made beforehand,
and none waits for another. The first line on standard output tells its ports: `far`, which waits, and `near`,
which does not, and answers what the bench itself asks.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import time
from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvloop

from bench.harvest import PROJECT
from bench.measuring import RunFailedError, cores, on_core
from bench.site import LAYER, config, count, image, tile_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE: Final = 30.0
"""Seconds for the server to start and to answer; it needs a second at most."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the site was asked since the last look."""

    heads: list[float]
    """When each HEAD for a tile arrived: seconds of a clock of the site's own, ascending."""
    gets: int
    """GETs of tiles."""
    cpu: float
    """Seconds that the site has used since its start."""


class DistantSite:
    """The running server, seen from the bench."""

    def __init__(self, near: int, far: int, depth: int) -> None:
        self._near = near
        self.depth = depth
        self.tiles = count(depth)
        self.near_url = f"http://127.0.0.1:{near}"
        self.url = f"http://127.0.0.1:{far}"

    def asked(self) -> Asked:
        """The next look begins here."""
        return Asked(**self._question("/.asked"))

    def heads(self) -> int:
        """HEADs for tiles since the last look. Costs the site little, however many there are."""
        return int(self._question("/.heads"))

    def etags(self) -> dict[str, str]:
        """Of every tile's address."""
        return {f"{self.url}/{path}": _etag(number) for number, path in enumerate(tile_paths(self.depth), 1)}

    def _question(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._near, timeout=_PATIENCE)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextmanager
def distant_site(depth: int, latency: float) -> Iterator[DistantSite]:
    """Run one on the server's core until the block ends. `latency` is in seconds."""
    command = [sys.executable, "-m", "bench.distant", str(depth), str(latency)]
    with on_core(cores()[1]):
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RunFailedError("the distant site did not start; its own words are above")
            yield DistantSite(**json.loads(line), depth=depth)
        finally:
            process.terminate()


class _Site:
    """What both ports serve."""

    def __init__(self, depth: int) -> None:
        self._heads = array("d")
        self._gets = 0
        page = _answer(config(depth).encode(), "application/javascript", 0)
        self._pages = {b"/overviewerConfig.js": page}
        self._tiles = {
            f"/{path}".encode(): _answer(image(number), "image/png", number)
            for number, path in enumerate((f"{LAYER}/base.png", *tile_paths(depth)))
        }

    def answer(self, method: bytes, path: bytes) -> bytes:
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


class _Connection(asyncio.Protocol):
    """Requests without bodies, one after the other, as crawlers make them."""

    def __init__(self, site: _Site, latency: float) -> None:
        self._site = site
        self._latency = latency
        self._received = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: Any) -> None:
        # No asyncio.Transport by its type, but it does what one does.
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self._received = (self._received + data).split(b"\r\n\r\n")
        for request in requests:
            method, path, _ = request.split(b" ", 2)
            answer = self._site.answer(method, path)
            if self._latency:
                self._loop.call_later(self._latency, self._write, answer)
            else:
                self._write(answer)

    def _write(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


def _etag(number: int) -> str:
    return f'"{number:x}"'


def _answer(body: bytes, kind: str, number: int) -> tuple[bytes, bytes]:
    """Head and body."""
    fields = (f"Content-Type: {kind}", f"Content-Length: {len(body)}", f"ETag: {_etag(number)}")
    return "\r\n".join(("HTTP/1.1 200 OK", "Server: bench", *fields, "", "")).encode(), body


_NOTHING: Final = (b"HTTP/1.1 404 Not Found\r\nServer: bench\r\nContent-Length: 0\r\n\r\n", b"")


async def _serve(depth: int, latency: float) -> None:
    site, loop = _Site(depth), asyncio.get_running_loop()
    ports = {}
    for name, seconds in (("near", 0.0), ("far", latency)):

        def connection(seconds: float = seconds) -> _Connection:
            return _Connection(site, seconds)

        server = await loop.create_server(connection, "127.0.0.1", 0, backlog=512)
        ports[name] = server.sockets[0].getsockname()[1]
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
