"""`scrapy failures NAME`: the requests of a map that are not tried again by themselves in their segment."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from tileharvest.scheduler.codec import UnreadableRequestError, decode
from tileharvest.scheduler.port import Changes, Entry
from tileharvest.scheduler.requests import PUSHED
from tileharvest.terminal import failing_clearly, write_json, write_line, write_table
from tileharvest.wiring import described_map, sqlite_queue

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tileharvest.scheduler.port import Failure
    from tileharvest.scheduler.sqlite import SqliteQueue


class Command(ScrapyCommand):
    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return "[options] NAME"

    def short_desc(self) -> str:
        return "List the requests that failed, put them back into the queue, or forget them"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="write JSON for programs")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--retry", action="store_true", help="put all of them back into the queue")
        what.add_argument("--clear", action="store_true", help="forget all of them")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("say which map: scrapy failures NAME", print_help=False)
        with failing_clearly(self):
            assert self.settings is not None
            described_map(self.settings, args[0])
            asyncio.run(self._see_to_them(args[0], opts))

    async def _see_to_them(self, name: str, opts: argparse.Namespace) -> None:
        assert self.settings is not None
        queue = sqlite_queue(self.settings, name)
        await queue.open_beside()
        try:
            if opts.retry:
                write_line(
                    f"{await _retry(queue)} requests are back in the queue of map '{name}': a running harvest"
                    f" takes them up, else the next one"
                )
            elif opts.clear:
                write_line(f"{await queue.clear_failures()} failures of map '{name}' are forgotten")
            else:
                _write(name, await queue.failures(), as_json=opts.json)
        finally:
            await queue.close()


async def _retry(queue: SqliteQueue) -> int:
    failures = await queue.failures()
    entries = [Entry(failure.body, PUSHED, None, max(1, failure.priority)) for failure in failures]
    await queue.exchange(Changes(entries, [failure.id for failure in failures]), 0, time.time())
    return len(failures)


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
