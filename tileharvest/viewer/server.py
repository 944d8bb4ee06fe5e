"""The viewer's server: it is put together, listens, and runs until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

import uvloop
from aiohttp import web

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.pictures.composer import Composer
from tileharvest.viewer.application import FAILED, Application
from tileharvest.viewer.frames import parse_ancestors
from tileharvest.viewer.host_names import HostNames
from tileharvest.viewer.page_files import page_files
from tileharvest.viewer.replies import error, quoted
from tileharvest.viewer.served_maps import ServedMaps
from tileharvest.viewer.work_queue import RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Iterator,
        Mapping,
        Sequence,
    )
    from pathlib import Path

    from tileharvest.history.database import History
    from tileharvest.store.cache import DiskCache
    from tileharvest.store.port import TileStore

_log = logging.getLogger(__name__)

PATIENCE: Final = 0.3
"""Seconds that requests under way have to end when the server is stopped."""

KEPT_ALIVE: Final = 30.0
"""Seconds for which an idle connection is held. An open page asks every 15."""
MOST_CONNECTIONS: Final = 512
"""Connections that are held at once: half of the files that most systems let a process open."""
HEADER_SECONDS: Final = 10.0
"""Seconds within which a request's headers must have come."""
UNREAD_SECONDS: Final = 30.0
"""Seconds after which a connection ends whose reader takes nothing of what is sent."""
LINGERING: Final = 1.0
"""Seconds for which the rest of a refused request is read, so that its sender gets the reply."""

_HIGHEST_PORT: Final = 65_535


def parse_port(text: str) -> int:
    """Returns a port; 0 is any free one. Raises ConfigurationError."""
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _HIGHEST_PORT:
        return int(text)
    raise ConfigurationError(
        f"--port {text} cannot be: write a number from 0 (any free port) to {_HIGHEST_PORT}"
    )


def serve(
    application: Application,
    host: str,
    port: int,
    announce: Callable[[Sequence[str]], None],
    allowed: Collection[str] = (),
) -> None:
    """Serves until SIGINT or SIGTERM, and announces its addresses once it accepts connections.

    Raises as `listening` does. Call it in the main thread, where signals arrive.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_stopped(application, host, port, announce, allowed))


@contextmanager
def viewer(
    maps_file: Path,
    open_history: Callable[[], History | None],
    store: TileStore,
    workers: Callable[[str], int],
    cache: DiskCache,
    only: Collection[str] = (),
    areas_file: Path | None = None,
    ancestors: Collection[str] = (),
    most_filmed: int = 0,
) -> Iterator[Application]:
    """Puts an application together that only reads, and closes it when the block ends.

    What takes long to make is kept in `cache`. `ancestors` are the sites of `--frame-ancestors`,
    and `most_filmed` the tiles of `--films`.

    `open_history` returns None while there is no history. `workers` returns how many harvest a map now.
    `only` names the maps to serve; without names all are served. Raises ConfigurationError for wrong names or
    a wrong file, and HistoryError for a history that cannot be read.
    """
    with closing(ServedMaps(maps_file, open_history, workers, only, areas_file=areas_file)) as served:
        sites = parse_ancestors(ancestors)
        composer = Composer(store, cache)
        application = Application(served, store, composer, page_files(), cache, sites, most_filmed)
        try:
            yield application
        finally:
            application.close()


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
    """Listens while the block lasts. Yields the addresses by which it can be asked, each with a slash at its
    end.

    `allowed` are names by which it may be asked besides, such as that of a proxy. Raises TileHarvestError
    where it cannot listen, and ConfigurationError for a host that is not this computer's, or for what is no
    name.
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
    """Returns the handler that answers only requests to one of these names."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        # An address in full takes the place of the header, and aiohttp's `host` tells which of them counts.
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
    """Returns the pages' addresses of a server that is bound to these sockets' addresses."""
    port, hosts = bound[0][1], [host]
    where = ip_address(bound[0][0])
    if where.is_unspecified:
        everywhere = ("127.0.0.1", "192.0.2.1") if where.version == 4 else ("::1", "2001:db8::1")
        hosts = [everywhere[0], *_outward(*everywhere)]
    return [f"http://{f'[{one}]' if ':' in one else one}:{port}/" for one in hosts]


def _outward(loopback: str, elsewhere: str) -> list[str]:
    """Returns the address that this computer has for others on the way to one elsewhere; none without a way.

    The one elsewhere belongs to nobody (RFC 5737, RFC 3849), and nothing is sent there.
    """
    family = socket.AF_INET6 if ":" in loopback else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect((elsewhere, 9))
        own = str(way.getsockname()[0])
        return [own] if own != loopback else []
    return []


async def _serve_until_stopped(
    application: Application,
    host: str,
    port: int,
    announce: Callable[[Sequence[str]], None],
    allowed: Collection[str],
) -> None:
    stopped = asyncio.Event()
    for which in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(which, stopped.set)
    try:
        async with listening(application, host, port, allowed) as addresses:
            announce(addresses)
            await stopped.wait()
    finally:
        application.close()


async def _listen(runner: web.ServerRunner, host: str, port: int) -> None:
    elsewhere = ConfigurationError(f"--host {host} is no address of this computer")
    if not host:
        # To asyncio this means every address that there is, which nobody should open by an empty word.
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
    """Returns a whole answer to a connection of which no request is known."""
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
    """A client's connection. What is no HTTP gets a reply of the same form as all others."""

    __slots__ = ("_begun", "_is_ended", "_is_refused", "_patience", "_server", "_unread", "_until")

    def __init__(self, server: _Server, patience: float, unread: float) -> None:
        """`patience` is how many seconds headers may take, `unread` how many a reader may take nothing."""
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
        """Ends the connection unless a request is complete by then."""
        self._begun = False
        """Whether a part of a request has come."""
        self._is_refused = False
        self._is_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        own: socket.socket | None = transport.get_extra_info("socket")
        if own is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # The system ends it: also when all that is left to send lies there, and the request is long over.
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
        # Without data aiohttp only looks for more requests in what it has kept of many.
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
        # A browser opens connections in store; to one that has asked nothing, nothing is said.
        self._end(_TOO_SLOW if self._begun else b"")

    def _end(self, answer: bytes) -> None:
        """Says this and nothing more. What still comes is read for a while: else its sender would never see
        the answer, because TCP resets a connection that is closed over unread bytes."""
        self._stop_clock()
        self._is_ended = True
        self.close()
        if self.transport is not None:
            self.transport.write(answer)
            self.transport.write_eof()
            self._until = self._loop.call_later(LINGERING, self.force_close)


class _Server(web.Server):
    """An HTTP server with such connections, and with so many at most."""

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
        """Gives one of the places to a new connection, if there is one."""
        if self._places <= 0:
            return False
        self._places -= 1
        return True

    def leave(self, *, is_refused: bool) -> None:
        """Takes back the place of a connection that is closed."""
        self._places += not is_refused

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, self._header_seconds, self._unread_seconds)
