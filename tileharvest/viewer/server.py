"""The viewer's server: it is put together, listens, and runs until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
from contextlib import asynccontextmanager, closing, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import uvloop
from aiohttp import web

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.pictures.composer import Composer
from tileharvest.viewer.application import FAILED, Application
from tileharvest.viewer.page_files import page_files
from tileharvest.viewer.replies import error
from tileharvest.viewer.served_maps import ServedMaps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator
    from pathlib import Path

    from tileharvest.history.database import History
    from tileharvest.store.port import TileStore

_log = logging.getLogger(__name__)

PATIENCE: Final = 0.3
"""Seconds that requests under way have to end when the server is stopped."""

KEPT_ALIVE: Final = 75.0
"""Seconds for which an idle connection is held, as most servers hold it."""
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


def serve(application: Application, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM, and announces its address once it accepts connections.

    Raises TileHarvestError where it cannot listen, and ConfigurationError for a host that is not this
    computer's. Call it in the main thread, where signals arrive.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_stopped(application, host, port, announce))


@contextmanager
def viewer(
    maps_file: Path,
    open_history: Callable[[], History | None],
    store: TileStore,
    workers: Callable[[str], int],
    only: Collection[str] = (),
) -> Iterator[Application]:
    """Puts an application together that only reads, and closes it when the block ends.

    `open_history` returns None while there is no history. `workers` returns how many harvest a map now.
    `only` names the maps to serve; without names all are served. Raises ConfigurationError for wrong names or
    a wrong file, and HistoryError for a history that cannot be read.
    """
    with closing(ServedMaps(maps_file, open_history, workers, only)) as served:
        application = Application(served, store, Composer(store), page_files())
        try:
            yield application
        finally:
            application.close()


@asynccontextmanager
async def listening(application: Application, host: str, port: int) -> AsyncIterator[str]:
    """Listens while the block lasts. Yields the address, which ends in a slash. Raises as `serve` does."""
    runner = web.ServerRunner(_Server(application), handle_signals=False, shutdown_timeout=PATIENCE)
    await runner.setup()
    try:
        await _listen(runner, host, port)
        bound = runner.addresses[0][1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound}/"
    finally:
        await runner.cleanup()


async def _serve_until_stopped(
    application: Application, host: str, port: int, announce: Callable[[str], None]
) -> None:
    stopped = asyncio.Event()
    for which in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(which, stopped.set)
    try:
        async with listening(application, host, port) as address:
            announce(address)
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


class _Connection(web.RequestHandler):
    """A client's connection. What is no HTTP gets a reply of the same form as all others."""

    __slots__ = ()

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


class _Server(web.Server):
    """An HTTP server with such connections."""

    def __init__(self, application: Application) -> None:
        super().__init__(application.handle)

    def __call__(self) -> web.RequestHandler:
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=KEPT_ALIVE,
            lingering_time=LINGERING,
        )
