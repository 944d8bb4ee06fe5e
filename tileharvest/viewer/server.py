"""The viewer's server: its options, the host names it answers to, and its run until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import socket
from contextlib import asynccontextmanager
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import uvloop
from aiohttp import web

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.viewer.replies import error, quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from tileharvest.viewer.application import Application

PATIENCE: Final = 0.3
"""Seconds for which requests under way may go on when the server is stopped."""

KEPT_ALIVE: Final = 30.0
"""Seconds for which an idle connection is held. An open page asks every 15."""

_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII)
_LOOPBACK: Final = "localhost"
_HIGHEST_PORT: Final = 65_535
_ORIGIN: Final = re.compile(
    r"https?://(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*(:\d{1,5})?", re.ASCII | re.IGNORECASE
)
"""A host-source of CSP (level 3, section 2.3.1) with its scheme and without a path."""


def parse_port(text: str) -> int:
    """Returns the port of `--port`; 0 means any free one. Raises ConfigurationError for any other text."""
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _HIGHEST_PORT:
        return int(text)
    wanted = f"a number from 0 (any free port) to {_HIGHEST_PORT}"
    raise ConfigurationError(f"--port {text} cannot be: write {wanted}")


def parse_ancestors(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the sites of `--frame-ancestors`. Raises ConfigurationError for a text that is not a site."""
    ancestors = tuple(texts)
    for text in ancestors:
        if _ORIGIN.fullmatch(text) is None:
            raise ConfigurationError(
                f"--frame-ancestors {text} cannot be: write a site such as https://forum.example.net"
            )
    return ancestors


def serve(served: AbstractAsyncContextManager[object]) -> None:
    """Keeps a viewer that is `listening` until SIGINT or SIGTERM. Raises what `listening` raises. Call it in
    the main thread, where signals arrive."""

    async def until_stopped() -> None:
        stopped = asyncio.Event()
        for which in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(which, stopped.set)
        async with served:
            await stopped.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_stopped())


@asynccontextmanager
async def listening(
    application: Application, host: str, port: int, allowed: Collection[str] = ()
) -> AsyncIterator[str]:
    """Listens while the block lasts. Yields the server's address, with a slash at its end.

    `allowed` are further host names that requests may have, such as that of a proxy. Raises TileHarvestError
    if it cannot listen, and ConfigurationError for a host that is not this computer's, or for a text that is
    no name.
    """
    site = web.Application(middlewares=[_guard(admission(host, allowed)), application.refuse])
    site.add_routes(application.routes())
    runner = web.AppRunner(site, access_log=None, keepalive_timeout=KEPT_ALIVE, shutdown_timeout=PATIENCE)
    await runner.setup()
    try:
        await _listen(runner, host, port)
        yield _address(host, runner.addresses)
    finally:
        await runner.cleanup()


def admission(host: str, more: Iterable[str] = ()) -> Callable[[str], bool]:
    """Returns a function that says whether a request may name a host, written as in the header Host:
    `127.0.0.1:8000`. The viewer listens on `host`.

    It may name `host` itself, the loopback, and the names of `--allow-host`, which are `more`. If the viewer
    listens to more than the loopback, any IP address will do, because no name server can give a number
    another meaning. Another name may be an attack (DNS rebinding): its owner lets it mean 127.0.0.1 for a
    moment, so that a page of theirs reads in a visitor's browser what only the visitor's computer may see.
    Raises ConfigurationError for anything but a name in `more`, such as the address of a page.
    """
    names, takes_addresses = {host.lower()}, not is_loopback(host)
    for name in more:
        plain = name.lower().removeprefix("[").removesuffix("]").removesuffix(".")
        if _ip(plain) is None and _NAME.fullmatch(plain) is None:
            raise ConfigurationError(
                f"--allow-host {name} cannot be: write a name alone, such as maps.example.net"
            )
        names.add(plain)

    def admits(authority: str) -> bool:
        named = _host_of(authority)
        if named is None:
            return False
        return named in names or is_loopback(named) or (takes_addresses and _ip(named) is not None)

    return admits


def is_loopback(host: str) -> bool:
    """Returns whether a name or an address always means the computer itself (RFC 6761, section 6.3)."""
    address = _ip(host)
    if address is not None:
        return address.is_loopback
    return host.lower() == _LOOPBACK or host.lower().endswith(f".{_LOOPBACK}")


def _host_of(authority: str) -> str | None:
    """Returns the host of an authority with any port: proxies and tunnels have ports of their own."""
    try:
        parts = urlsplit(f"//{authority}")
        # A wrong port raises ValueError, too.
        host, _ = parts.hostname, parts.port
    except ValueError:
        return None
    is_all = (parts.netloc, parts.username) == (authority, None)
    return host.removesuffix(".") if host and is_all else None


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _guard(admits: Callable[[str], bool]) -> Any:
    """Returns a middleware that lets only requests to an admitted host name through."""

    @web.middleware
    async def guard(request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        # A request may have a whole address, which counts instead of the header. aiohttp's `host` has the one
        # that counts.
        for named in {request.host, *request.headers.getall("Host", [""])}:
            if not admits(named):
                return error(
                    HTTPStatus.MISDIRECTED_REQUEST,
                    f"the viewer is not at {quoted(named)}; if that is a name of yours, start it with"
                    " --allow-host and this name",
                )
        response: web.StreamResponse = await handler(request)
        return response

    return guard


def _address(host: str, bound: Sequence[Sequence[Any]]) -> str:
    """Returns the address of a server whose sockets are bound to these addresses: for a server that listens
    everywhere, the one of the loopback."""
    where = ip_address(bound[0][0])
    if where.is_unspecified:
        host = "127.0.0.1" if where.version == 4 else "::1"
    return f"http://{f'[{host}]' if ':' in host else host}:{bound[0][1]}/"


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        if isinstance(error, socket.gaierror | UnicodeError) or number == errno.EADDRNOTAVAIL:
            raise ConfigurationError(f"--host {host} is not an address of this computer") from None
        if number == errno.EADDRINUSE:
            raise TileHarvestError(
                f"port {port} of {host} is in use, perhaps by another viewer: name another one, such as"
                f" --port {port + 1}, or --port 0 for any that is free"
            ) from None
        said = os.strerror(number) if number else str(error)
        raise TileHarvestError(f"port {port} of {host} cannot be opened: {said}") from None
