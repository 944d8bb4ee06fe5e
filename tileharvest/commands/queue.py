"""`scrapy queue NAME`: what waits in a map's queue, and who works on it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tileharvest.map_command import MapCommand
from tileharvest.scheduling import has_queue, open_beside
from tileharvest.terminal import write_json, write_line, write_table
from tileharvest.watching import NOTHING, WORKER_COLUMNS, look
from tileharvest.wiring import described_map

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.watching import Overview


class Command(MapCommand):
    def short_desc(self) -> str:
        return "Show what waits in a map's queue: pending per lane, delayed, leased, failed; and its workers"

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        (name,) = args
        described_map(settings, name)
        overview = asyncio.run(_look(settings, name)) if has_queue(settings, name) else NOTHING
        if opts.json:
            write_json(overview.as_plain())
        else:
            _write(overview)


async def _look(settings: BaseSettings, name: str) -> Overview:
    async with open_beside(settings, name) as queue:
        return await look(queue, time.time())


def _write(overview: Overview) -> None:
    write_table(["requests", ">number"], overview.rows())
    if overview.crew is None:
        return
    write_line("")
    if overview.crew.workers:
        write_table(WORKER_COLUMNS, overview.crew.rows())
    else:
        write_line("no worker")
