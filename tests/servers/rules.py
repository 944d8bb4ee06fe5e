"""The rules by which a `misbehaving` server misbehaves: each answers one exchange in its own way."""

import asyncio
import socket
import struct
import zlib
from itertools import count
from math import inf
from typing import Final

from aiohttp import web

from tests.servers.misbehaving import Answer, Exchange, Rule

ERROR_PAGE: Final = b"<!DOCTYPE html><html><head><title>Not Found</title></head><body>Sorry!</body></html>"
LFS_POINTER: Final = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345\n"
)


def first(times: int, rule: Rule) -> Rule:
    """Applies the rule to the first requests, whatever their path. Later ones are answered properly."""
    return counted(rule, 0, times)


def limited(after: int, refusals: float = inf) -> Rule:
    """Answers some requests properly. Then it answers 403 for a while, or for ever, and after these properly
    again: as a host does that counts requests and has no status for that."""
    return counted(status(403), after, after + refusals)


def counted(rule: Rule, after: int, until: float = inf) -> Rule:
    """Applies the rule to the requests from one number until another one, whatever their path."""
    numbers = count()

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.answered(rule if after <= next(numbers) < until else None)

    return answer


def only(method: str, rule: Rule) -> Rule:
    """Applies the rule to requests of this method. Other requests are answered properly."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.answered(rule if exchange.request.method == method else None)

    return answer


def tiles_only(rule: Rule) -> Rule:
    """Applies the rule to tiles. The site's configuration is answered properly."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.answered(rule if exchange.path.endswith(".png") else None)

    return answer


def status(code: int, headers: dict[str, str] | None = None) -> Answer:
    """Answers this status with an error page."""
    return Answer(code, {"Content-Type": "text/html"} | (headers or {}), ERROR_PAGE)


def redirect(code: int, location: str) -> Answer:
    """Answers 301 or 302. `location` is a path or a URL."""
    return status(code, {"Location": location})


def body(content: bytes, content_type: str = "image/png") -> Answer:
    """Answers 200 with this body and an ETag of its own, whatever the path and the conditions."""
    etag = f'"{zlib.crc32(content):x}-{len(content):x}"'
    return Answer(200, {"ETag": etag, "Content-Type": content_type}, content)


def cut_off(size: int) -> Rule:
    """Ends the body after `size` bytes. Content-Length and ETag agree with that: only the image can tell.

    A file that was uploaded in part is like this. Requests with conditions that the whole file meets are
    answered with 304.
    """

    async def answer(exchange: Exchange) -> Answer | None:
        return body(exchange.proper.body[:size]) if exchange.proper.status == 200 else None

    return answer


def proper_head(exchange: Exchange) -> bytes:
    """Returns the head of the proper answer to GET."""
    return b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: %d\r\n\r\n' % len(exchange.proper.body)


def broken_off(size: int) -> Rule:
    """Closes the connection after `size` bytes of a body, although Content-Length promises the whole body."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.answered(raw(proper_head(exchange), exchange.proper.body[:size]))

    return only("GET", answer)


def hang() -> Rule:
    """Keeps the connection open and never answers."""
    return raw(ending="open")


def endless() -> Rule:
    """Answers GET with a body that never ends, as fast as it is taken. Its header promises an image."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n"
    return only("GET", raw(head, bytes(65_536), ending="again"))


def reset() -> Rule:
    """Resets the connection: the client gets a RST, and not a byte."""
    return raw(ending="reset")


def raw(*parts: bytes, ending: str = "closed", pause: float = 0.0) -> Rule:
    """Sends these bytes in place of an answer, whatever they are. Then the connection is `closed`, `reset`,
    left `open`, or the last part is sent `again` after each pause, until the client leaves."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        transport = exchange.request.transport
        if transport is None:
            raise ConnectionError("the client has gone")
        transport.writelines(parts)
        while ending == "again" and not transport.is_closing():
            if transport.get_write_buffer_size() < 1 << 20:
                transport.write(parts[-1])
            await asyncio.sleep(pause)
        if ending == "open":
            await asyncio.Event().wait()
        if ending == "reset":
            connection: socket.socket = transport.get_extra_info("socket")
            # A socket that lingers for 0 seconds is reset when it is closed.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        transport.close()
        return web.Response()

    return answer


class Gate:
    """Answers `after` requests. Then it keeps the answer to the next one, or to all that come, until it is
    opened."""

    def __init__(self, after: int = 0, *, keeps_all: bool = False) -> None:
        self._after = after
        self._keeps_all = keeps_all
        self._opened = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, exchange: Exchange) -> None:
        if self._after:
            self._after -= 1
        elif self._loop is None or self._keeps_all:
            self._loop = asyncio.get_running_loop()
            await self._opened.wait()

    @property
    def is_reached(self) -> bool:
        """Whether a request waits."""
        return self._loop is not None

    def open(self) -> None:
        assert self._loop is not None, "nobody waits"
        self._loop.call_soon_threadsafe(self._opened.set)


class Slow:
    """Each answer takes its time; the requests that wait for theirs are counted."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting = 0
        self.most = 0
        """The most requests that waited at the same time."""

    async def __call__(self, exchange: Exchange) -> None:
        self._waiting += 1
        self.most = max(self.most, self._waiting)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            # Also when the client has gone meanwhile.
            self._waiting -= 1
