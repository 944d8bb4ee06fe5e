"""The publication of a day as a folder of files that a renderer could have written, and its web server.

As on a real site, a file's time says when it was last drawn. A new day touches only the files that differ,
because web servers make their ETags of time and size.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from aiohttp import web

from tileharvest.demo.forms import FORMS
from tileharvest.demo.pyramid import tiles_on, whole_map

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tileharvest.demo.forms import Form


def publish(day: int, first_day: date, folder: Path, form: Form = FORMS["overviewer"]) -> None:
    """Makes the folder's layer and configuration those of a day, and touches only what differs.

    `first_day` is the date of day 1. Other files in the folder are left alone. Raises ValueError for a day
    that the world does not have.
    """
    tiles, depth, now = tiles_on(day, form.cut), form.cut.depth(day), _drawn_at(first_day, day)
    images = {form.path(tile, depth): drawn for tile, drawn in tiles.items()}
    if form.cut.zooms is None:
        # The image of the whole map, above the first level.
        images[f"{form.folder}/base.png"] = whole_map(day, form.cut)
    files = {path: (form.bytes_of(one), _drawn_at(first_day, one.drawn)) for path, one in images.items()}
    files |= {path: (text.encode(), now) for path, text in form.files(depth, now, tiles).items()}
    for path, (content, modified) in files.items():
        _write(folder / path, content, modified)
    for file in (folder / form.folder).rglob("*.png"):
        if file.relative_to(folder).as_posix() not in files:
            file.unlink()


def _drawn_at(first_day: date, day: int) -> int:
    """Returns when the map is drawn on a day, in seconds since 1970: at its start, so that no file of today
    lies in the future."""
    return int(datetime.combine(first_day + timedelta(days=day - 1), time(0, tzinfo=UTC)).timestamp())


def _write(file: Path, content: bytes, modified: int) -> None:
    """Replaces a file in one step, unless it has these bytes and this time already."""
    if file.is_file() and file.stat().st_mtime == modified and file.read_bytes() == content:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.part")
    temporary.write_bytes(content)
    os.utime(temporary, (modified, modified))
    temporary.replace(file)


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
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
