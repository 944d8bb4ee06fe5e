"""Running the server until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import uvloop
from aiohttp import web

from tileharvest.errors import ConfigurationError, TileHarvestError
from tileharvest.viewer.application import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tileharvest.viewer.application import Application

PATIENCE: Final = 0.3
"""Seconds that requests under way have to end when the server is stopped."""

_HIGHEST_PORT: Final = 65_535


class AddressError(TileHarvestError):
    """The server cannot listen where it was told to."""


def parse_port(text: str) -> int:
    """A port; 0 is any free one. Raises ConfigurationError."""
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _HIGHEST_PORT:
        return int(text)
    raise ConfigurationError(
        f"--port {text} cannot be: write a number from 0 (any free port) to {_HIGHEST_PORT}"
    )


def serve(application: Application, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM, and tells the address once connections are accepted.

    Raises AddressError, or ConfigurationError for a host that is not this computer's. Belongs to the main
    thread, where signals arrive.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_stopped(application, host, port, announce))


@asynccontextmanager
async def listening(application: Application, host: str, port: int) -> AsyncIterator[str]:
    """The server's address, while the block lasts. Ends in a slash. Raises as `serve` does."""
    runner = web.ServerRunner(Server(application), handle_signals=False, shutdown_timeout=PATIENCE)
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
        # To asyncio this means every address there is, which nobody opens by leaving something out.
        raise elsewhere
    try:
        await web.TCPSite(runner, host, port).start()
    except (socket.gaierror, UnicodeError):
        raise elsewhere from None
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise elsewhere from None
        if error.errno == errno.EADDRINUSE:
            raise AddressError(
                f"port {port} of {host} is in use, perhaps by another viewer: name another one, such as"
                f" --port {port + 1}, or --port 0 for any that is free"
            ) from None
        said = os.strerror(error.errno) if error.errno else str(error)
        raise AddressError(f"port {port} of {host} cannot be opened: {said}") from None
