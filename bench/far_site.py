"""A generated site that is far away: each answer leaves a while after its request came.

    python -m bench.far_site DEPTH SECONDS

It is the bench's own server, because nginx cannot wait and not every kernel can delay packets. All answers
are made beforehand, and no answer waits for another one. The first line on standard output is the port.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvloop

from bench.cost import PROJECT, RunFailedError, cores, on_core
from bench.site import LAYER, config, count, image, tile_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOTHING: Final = (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b"")


@dataclass(frozen=True, slots=True)
class FarSite:
    """The running server, seen from the bench."""

    url: str
    tiles: int

    def asked(self) -> dict[str, list[float]]:
        """Returns when tiles were asked for since the last call, by method, on the site's own clock."""
        with urllib.request.urlopen(f"{self.url}/.asked") as answer:  # noqa: S310 - http on the loopback
            told: dict[str, list[float]] = json.load(answer)
        return told


@contextmanager
def far_site(depth: int, latency: float) -> Iterator[FarSite]:
    """Runs a site on the servers' core until the block ends. `latency` is in seconds."""
    command = [sys.executable, "-m", "bench.far_site", str(depth), str(latency)]
    with on_core(cores()[1]):
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            if not port:
                raise RunFailedError("the far site did not start; its own words are above")
            yield FarSite(f"http://127.0.0.1:{port}", count(depth))
        finally:
            process.terminate()


class _Connection(asyncio.Protocol):
    """A connection with requests without bodies, one after the other, as crawlers make them."""

    asked: Final[dict[str, list[float]]] = {"HEAD": [], "GET": []}
    """When tiles were asked for, by method; of all connections together."""

    def __init__(
        self, tiles: dict[bytes, tuple[bytes, bytes]], page: tuple[bytes, bytes], wait: float
    ) -> None:
        self._tiles = tiles
        self._page = page
        self._wait = wait
        self._received = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self._received = (self._received + data).split(b"\r\n\r\n")
        for request in requests:
            self._loop.call_later(self._wait, self._write, self._answer(request))

    def _answer(self, request: bytes) -> bytes:
        method, path, _ = request.split(b" ", 2)
        if path == b"/.asked":
            told = json.dumps(self.asked).encode()
            for times in self.asked.values():
                times.clear()
            return b"".join(_answer(told, "application/json", 0))
        if path in self._tiles:
            self.asked[method.decode()].append(time.monotonic())
        elif path == b"/overviewerConfig.js":
            return b"".join(self._page[: 1 if method == b"HEAD" else 2])
        head, body = self._tiles.get(path, _NOTHING)
        return head if method == b"HEAD" else head + body

    def _write(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


def _answer(body: bytes, kind: str, number: int) -> tuple[bytes, bytes]:
    """Returns the head and the body of an answer."""
    fields = (f"Content-Type: {kind}", f"Content-Length: {len(body)}", f'ETag: "{number:x}"')
    return "\r\n".join(("HTTP/1.1 200 OK", *fields, "", "")).encode(), body


async def _serve(depth: int, latency: float) -> None:
    paths = enumerate((f"{LAYER}/base.png", *tile_paths(depth)))
    tiles = {f"/{path}".encode(): _answer(image(number), "image/png", number) for number, path in paths}
    page = _answer(config(depth).encode(), "application/javascript", 0)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(tiles, page, latency), "127.0.0.1", 0, backlog=512)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
