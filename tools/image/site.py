"""The command `python -m tools.image.site FOLDER`: serves the demo's map on a fast and on a slow port."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import web

from tileharvest.demo.publication import application, publish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FAST: Final = 8101
SLOW: Final = 8102
PAUSE: Final = 0.4
"""Seconds for an answer of the slow port: with 4 requests at a time a harvest needs some 13 seconds."""


@web.middleware
async def slowly(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    await asyncio.sleep(PAUSE)
    return await handler(request)


async def serve(folder: Path) -> None:
    publish(1, datetime.now(UTC).date(), folder)
    for port in (FAST, SLOW):
        site = application(folder)
        if port == SLOW:
            site.middlewares.append(slowly)
        runner = web.AppRunner(site, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
