"""The web server of the demo's site: it serves a folder of files, with validators."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_HOST: Final = "127.0.0.1"


def application(folder: Path) -> web.Application:
    """Returns an application that answers GET and HEAD for the files of a folder, and no others."""
    app = web.Application()
    app.router.add_static("/", folder)
    return app


@asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[str]:
    """Serves the folder to this computer alone until the block is left, on a free port.

    Yields the address of the folder, which ends in a slash. Files may change meanwhile.
    """
    runner = web.AppRunner(application(folder), access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, 0).start()
        yield f"http://{_HOST}:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
