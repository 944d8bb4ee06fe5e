"""`scrapy failures NAME`: the requests of a map that are not tried again by themselves in their segment."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tileharvest.map_command import MapCommand
from tileharvest.scheduler.codec import UnreadableRequestError, decode
from tileharvest.scheduler.port import Changes, Entry
from tileharvest.scheduler.requests import PUSHED
from tileharvest.scheduling import has_queue, open_beside
from tileharvest.terminal import write_json, write_line, write_table
from tileharvest.wiring import described_map

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

    from tileharvest.scheduler.port import Failure


class Command(MapCommand):
    def short_desc(self) -> str:
        return "List the requests that failed, put them back into the queue, or forget them"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--retry", action="store_true", help="put all of them back into the queue")
        what.add_argument("--clear", action="store_true", help="forget all of them")

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        (name,) = args
        described_map(settings, name)
        is_there = has_queue(settings, name)
        if opts.retry:
            number = asyncio.run(_retry(settings, name)) if is_there else 0
            write_line(
                f"{number} requests are back in the queue of map '{name}': a running harvest takes them up,"
                f" else the next one"
            )
        elif opts.clear:
            number = asyncio.run(_clear(settings, name)) if is_there else 0
            write_line(f"{number} failures of map '{name}' are forgotten")
        else:
            failures = asyncio.run(_failures(settings, name)) if is_there else []
            _write(name, failures, as_json=opts.json)


async def _retry(settings: BaseSettings, name: str) -> int:
    async with open_beside(settings, name) as queue:
        failures = await queue.failures()
        entries = [Entry(failure.body, PUSHED, None, max(1, failure.priority)) for failure in failures]
        await queue.exchange(Changes(entries, [failure.id for failure in failures]), 0, time.time())
        return len(failures)


async def _clear(settings: BaseSettings, name: str) -> int:
    async with open_beside(settings, name) as queue:
        return await queue.clear_failures()


async def _failures(settings: BaseSettings, name: str) -> Sequence[Failure]:
    async with open_beside(settings, name) as queue:
        return await queue.failures()


def _write(name: str, failures: Sequence[Failure], *, as_json: bool) -> None:
    rows = [_plain(failure) for failure in failures]
    if as_json:
        write_json(rows)
    elif rows:
        columns = ["tile", "address", ">attempts", "failed (UTC)", "reason"]
        write_table(columns, [[str(row[key]) for key in _KEYS] for row in rows])
    else:
        write_line(f"no request of map '{name}' has failed")


_KEYS = ("tile", "url", "attempts", "failed", "reason")


def _plain(failure: Failure) -> dict[str, Any]:
    try:
        queued = decode(failure.body)
    except UnreadableRequestError:
        url, tile = "unreadable", None
    else:
        url, tile = queued.url, queued.meta.get("tile")
        if tile is not None:
            tile = f"{queued.meta.get('layer')}:{'_'.join(map(str, tile))}"
    return {
        "tile": tile,
        "url": url,
        "segment": failure.segment,
        "attempts": failure.attempts,
        "failed": datetime.fromtimestamp(failure.failed, UTC).isoformat(timespec="seconds"),
        "reason": failure.reason,
    }
