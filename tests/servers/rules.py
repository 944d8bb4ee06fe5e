"""The rules by which a `misbehaving` server misbehaves: each answers one exchange in its own way."""

import asyncio
import socket
import struct
import zlib
from dataclasses import replace
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
    left = times

    async def answer(exchange: Exchange) -> web.StreamResponse:
        nonlocal left
        if left <= 0:
            return await exchange.send_properly()
        left -= 1
        return await rule(exchange)

    return answer


def only(method: str, rule: Rule) -> Rule:
    """Applies the rule to requests of this method. Other requests are answered properly."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await (rule(exchange) if exchange.request.method == method else exchange.send_properly())

    return answer


def status(code: int, headers: dict[str, str] | None = None) -> Rule:
    """Answers this status with an error page."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.send(Answer(code, {"Content-Type": "text/html"} | (headers or {}), ERROR_PAGE))

    return answer


def limited(after: int, refusals: int | None = None, headers: dict[str, str] | None = None) -> Rule:
    """Answers so many requests properly. Then it answers 403 so many times, or for ever, and after these
    properly again: as a host does that counts requests and has no status for that."""
    asked = 0

    async def answer(exchange: Exchange) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        is_refused = asked > after and (refusals is None or asked <= after + refusals)
        return await (status(403, headers)(exchange) if is_refused else exchange.send_properly())

    return answer


def redirect(code: int, location: str) -> Rule:
    """Answers 301 or 302. `location` is a path or a URL."""
    return status(code, {"Location": location})


def packed(content: bytes) -> Rule:
    """Answers 200 with bytes that are gzipped already."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.send(Answer(200, {"Content-Encoding": "gzip"}, content))

    return answer


def body(content: bytes, content_type: str = "image/png") -> Rule:
    """Answers 200 with this body and an ETag of its own, whatever the path and the conditions.

    It is meant for an error page with status 200, a Git-LFS pointer, or no bytes at all.
    """
    etag = f'"{zlib.crc32(content):x}-{len(content):x}"'

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.send(Answer(200, {"ETag": etag, "Content-Type": content_type}, content))

    return answer


def cut_off(size: int) -> Rule:
    """Ends the body after `size` bytes. Content-Length and ETag agree with that: only the image can tell.

    A file that was uploaded in part is like this. Requests with conditions that the whole file meets are
    answered with 304.
    """

    async def answer(exchange: Exchange) -> web.StreamResponse:
        if exchange.proper.status != 200:
            return await exchange.send_properly()
        part = exchange.proper.body[:size]
        etag = f'"{zlib.crc32(part):x}-{len(part):x}"'
        return await exchange.send(Answer(200, dict(exchange.proper.headers) | {"ETag": etag}, part))

    return answer


def broken_off(size: int) -> Rule:
    """Closes the connection after `size` bytes of a body, although Content-Length promises the whole body.

    Answers without a body are given properly.
    """

    async def answer(exchange: Exchange) -> web.StreamResponse:
        proper = exchange.proper
        if exchange.request.method == "HEAD" or not proper.body:
            return await exchange.send_properly()
        response = web.StreamResponse(status=proper.status, headers=dict(proper.headers))
        response.content_length = len(proper.body)
        await response.prepare(exchange.request)
        await response.write(proper.body[:size])
        # This sends what was written, and then the end of the stream.
        _transport(exchange).close()
        return response

    return answer


def headers(**values: str | None) -> Rule:
    """Answers with other headers, such as `headers(ETag=None, Last_Modified="...")`. None removes one."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        changes = {name.replace("_", "-"): value for name, value in values.items()}
        kept = {name: value for name, value in exchange.proper.headers.items() if name not in changes}
        given = {name: value for name, value in changes.items() if value is not None}
        return await exchange.send(replace(exchange.proper, headers=kept | given))

    return answer


def hang() -> Rule:
    """Keeps the connection open and never answers."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("waited for nothing, and it came")

    return answer


def endless(chunk: int = 65_536) -> Rule:
    """Answers GET with a body that never ends, as fast as it is taken. Its header promises an image."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        if exchange.request.method == "HEAD":
            return await exchange.send_properly()
        response = web.StreamResponse(headers={"Content-Type": "image/png"})
        await response.prepare(exchange.request)
        while True:
            await response.write(bytes(chunk))
            await asyncio.sleep(0)

    return answer


def reset() -> Rule:
    """Resets the connection: the client gets a RST, and not a byte."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        transport = _transport(exchange)
        connection: socket.socket = transport.get_extra_info("socket")
        # A socket that lingers for 0 seconds is reset when it is closed.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
        return web.Response()

    return answer


def raw(*parts: bytes, ending: str = "closed") -> Rule:
    """Sends these bytes in place of an answer, whatever they are. Then the connection is `closed`, `reset`,
    left `open`, or the last part is sent `again` until the client leaves, as fast as it takes it."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        transport = _transport(exchange)
        transport.writelines(parts)
        while ending == "again" and not transport.is_closing():
            if transport.get_write_buffer_size() < 1 << 20:
                transport.write(parts[-1])
            await asyncio.sleep(0)
        if ending == "open":
            await asyncio.Event().wait()
        if ending == "reset":
            return await reset()(exchange)
        transport.close()
        return web.Response()

    return answer


def trickle(head: bytes, part: bytes) -> Rule:
    """Sends a head, and then a few bytes now and then, for ever."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        transport = _transport(exchange)
        transport.write(head)
        while not transport.is_closing():
            transport.write(part)
            await asyncio.sleep(0.1)
        return web.Response()

    return answer


def _transport(exchange: Exchange) -> asyncio.Transport:
    transport = exchange.request.transport
    if transport is None:
        raise ConnectionError("the client has gone")
    return transport
