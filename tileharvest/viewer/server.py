"""The viewer's server: its options, its connections, and its run until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import signal
import socket
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

import uvloop
from aiohttp import web

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.viewer.application import FAILED, Application
from tileharvest.viewer.host_names import HostNames
from tileharvest.viewer.replies import error, quoted
from tileharvest.viewer.work_queue import RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractAsyncContextManager


_log = logging.getLogger(__name__)

PATIENCE: Final = 0.3
"""Seconds for which requests under way may go on when the server is stopped."""

KEPT_ALIVE: Final = 30.0
"""Seconds for which an idle connection is held. An open page asks every 15."""
MOST_CONNECTIONS: Final = 512
"""The most connections at once: half of the files that most systems let a process open."""
HEADER_SECONDS: Final = 10.0
"""Seconds within which all headers of a request must arrive."""
UNREAD_SECONDS: Final = 30.0
"""Seconds after which a connection is closed if its reader takes none of the bytes that are sent."""
LINGERING: Final = 1.0
"""Seconds for which the rest of a refused request is still read, so that its sender gets the reply."""

_HIGHEST_PORT: Final = 65_535
_ORIGIN: Final = re.compile(
    r"https?://(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*(:\d{1,5})?", re.ASCII | re.IGNORECASE
)
"""A host-source of CSP (level 3, section 2.3.1) with its scheme and without a path."""


def parse_port(text: str) -> int:
    """Returns the port of `--port`; 0 means any free one. Raises ConfigurationError for any other text."""
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _HIGHEST_PORT:
        return int(text)
    raise ConfigurationError(
        f"--port {text} cannot be: write a number from 0 (any free port) to {_HIGHEST_PORT}"
    )


def parse_ancestors(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the sites of `--frame-ancestors`. Raises ConfigurationError for a text that is no site."""
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
    application: Application,
    host: str,
    port: int,
    allowed: Collection[str] = (),
    *,
    most_connections: int = MOST_CONNECTIONS,
    header_seconds: float = HEADER_SECONDS,
    unread_seconds: float = UNREAD_SECONDS,
) -> AsyncIterator[list[str]]:
    """Listens while the block lasts. Yields the server's addresses, each with a slash at its end.

    `allowed` are further host names that requests may have, such as that of a proxy. Raises TileHarvestError
    if it cannot listen, and ConfigurationError for a host that is not this computer's, or for a text that is
    no name.
    """
    names = HostNames.of(host, allowed)
    server = _Server(_guarded(application, names), most_connections, header_seconds, unread_seconds)
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=PATIENCE)
    await runner.setup()
    try:
        await _listen(runner, host, port)
        yield _addresses(host, runner.addresses)
    finally:
        await runner.cleanup()


def _guarded(
    application: Application, names: HostNames
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Returns a handler that answers only requests to one of these names."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        # A request may have a whole address, which counts instead of the header. aiohttp's `host` has the one
        # that counts.
        for named in {request.host, *request.headers.getall("Host", [""])}:
            if not names.admit(named):
                return error(
                    HTTPStatus.MISDIRECTED_REQUEST,
                    f"the viewer is not at {quoted(named)}; if that is a name of yours, start it with"
                    " --allow-host and this name",
                )
        return await application.handle(request)

    return handle


def _addresses(host: str, bound: Sequence[Sequence[Any]]) -> list[str]:
    """Returns the addresses of a server whose sockets are bound to these addresses."""
    port, hosts = bound[0][1], [host]
    where = ip_address(bound[0][0])
    if where.is_unspecified:
        everywhere = ("127.0.0.1", "192.0.2.1") if where.version == 4 else ("::1", "2001:db8::1")
        hosts = [everywhere[0], *_outward(*everywhere)]
    return [f"http://{f'[{one}]' if ':' in one else one}:{port}/" for one in hosts]


def _outward(loopback: str, elsewhere: str) -> list[str]:
    """Returns the address of this computer in the network through which it reaches the address `elsewhere`,
    or nothing if there is no such network.

    The address `elsewhere` belongs to nobody (RFC 5737, RFC 3849), and nothing is sent there.
    """
    family = socket.AF_INET6 if ":" in loopback else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect((elsewhere, 9))
        own = str(way.getsockname()[0])
        return [own] if own != loopback else []
    return []


async def _listen(runner: web.ServerRunner, host: str, port: int) -> None:
    elsewhere = ConfigurationError(f"--host {host} is no address of this computer")
    if not host:
        # To asyncio an empty host means every address of this computer. Nobody should open them all by
        # leaving a word out.
        raise elsewhere
    try:
        await web.TCPSite(runner, host, port).start()
    except (socket.gaierror, UnicodeError):
        raise elsewhere from None
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise elsewhere from None
        if error.errno == errno.EADDRINUSE:
            raise TileHarvestError(
                f"port {port} of {host} is in use, perhaps by another viewer: name another one, such as"
                f" --port {port + 1}, or --port 0 for any that is free"
            ) from None
        said = os.strerror(error.errno) if error.errno else str(error)
        raise TileHarvestError(f"port {port} of {host} cannot be opened: {said}") from None


def _at_once(status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Returns the bytes of an answer for a connection that has sent no whole request."""
    refused = error(status, message, headers)
    body = refused.body
    assert isinstance(body, bytes)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in refused.headers.items()]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


_TOO_MANY: Final = _at_once(
    HTTPStatus.SERVICE_UNAVAILABLE,
    f"too many are connected to the viewer: ask again in {RETRY_AFTER} seconds",
    {"Retry-After": str(RETRY_AFTER)},
)
_TOO_SLOW: Final = _at_once(HTTPStatus.REQUEST_TIMEOUT, "the request's headers did not come in time")


class _Connection(web.RequestHandler):
    """A client's connection. Bytes that are no HTTP get a reply of the same form as any other error."""

    __slots__ = ("_begun", "_is_ended", "_is_refused", "_patience", "_server", "_unread", "_until")

    def __init__(self, server: _Server, patience: float, unread: float) -> None:
        """`patience` is the seconds that headers may take, and `unread` the seconds for which the reader may
        take nothing."""
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=KEPT_ALIVE,
            lingering_time=LINGERING,
        )
        self._server = server
        self._patience = patience
        self._unread = unread
        self._until: asyncio.TimerHandle | None = None
        """The timer that ends the connection if no request is complete by then."""
        self._begun = False
        """Whether a part of a request has arrived."""
        self._is_refused = False
        self._is_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        own: socket.socket | None = transport.get_extra_info("socket")
        if own is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # The system closes such a connection, even if the request is over and only the system still has
            # bytes to send.
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(self._unread * 1000))
        self._is_refused = not self._server.admit()
        if self._is_refused:
            self._end(_TOO_MANY)
        else:
            self._until = self._loop.call_later(self._patience, self._end_slow)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_clock()
        self._server.leave(is_refused=self._is_refused)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_ended:
            return
        known = self._request_count
        super().data_received(data)
        # aiohttp calls this without data to look for further requests in the bytes that it has kept.
        self._begun = self._request_count == known and (self._begun or bool(data))
        if not self._begun:
            self._stop_clock()
        elif self._until is None:
            self._until = self._loop.call_later(self._patience, self._end_slow)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("a request of %s failed", request.remote, exc_info=exc)
            response = error(status, FAILED)
        else:
            response = error(status, "this is no request that HTTP knows")
        response.force_close()
        return response

    def _stop_clock(self) -> None:
        if self._until is not None:
            self._until.cancel()
            self._until = None

    def _end_slow(self) -> None:
        # A browser opens spare connections. A connection that has asked nothing gets no answer.
        self._end(_TOO_SLOW if self._begun else b"")

    def _end(self, answer: bytes) -> None:
        """Sends an answer, and ends the connection. Bytes that still arrive are read for a while: TCP resets
        a connection that is closed with unread bytes, and then the client would never see the answer."""
        self._stop_clock()
        self._is_ended = True
        self.close()
        if self.transport is not None:
            self.transport.write(answer)
            self.transport.write_eof()
            self._until = self._loop.call_later(LINGERING, self.force_close)


class _Server(web.Server):
    """An HTTP server with a bounded number of connections."""

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        most_connections: int,
        header_seconds: float,
        unread_seconds: float,
    ) -> None:
        super().__init__(handle)
        self._places = most_connections
        self._header_seconds = header_seconds
        self._unread_seconds = unread_seconds

    def admit(self) -> bool:
        """Returns whether there is a place for a new connection, and takes that place."""
        if self._places <= 0:
            return False
        self._places -= 1
        return True

    def leave(self, *, is_refused: bool) -> None:
        """Gives back the place of a closed connection. A refused connection had none."""
        self._places += not is_refused

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, self._header_seconds, self._unread_seconds)
