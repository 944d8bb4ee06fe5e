"""`scrapy queue NAME`: what waits in a map's queue."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from tileharvest.terminal import failing_clearly, write_json, write_table
from tileharvest.wiring import described_map, sqlite_queue

if TYPE_CHECKING:
    import argparse

    from tileharvest.scheduler.port import Counts


class Command(ScrapyCommand):
    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return "[options] NAME"

    def short_desc(self) -> str:
        return "Show what waits in a map's queue: pending per lane, delayed, leased, failed, done, seen"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="write JSON for programs")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("say which map: scrapy queue NAME", print_help=False)
        with failing_clearly(self):
            assert self.settings is not None
            described_map(self.settings, args[0])
            counts = asyncio.run(self._counts(args[0]))
            if opts.json:
                write_json(counts.as_plain())
            else:
                write_table(["requests", ">number"], [[k, f"{v:,}"] for k, v in counts.as_plain().items()])

    async def _counts(self, name: str) -> Counts:
        assert self.settings is not None
        queue = sqlite_queue(self.settings, name)
        await queue.open_beside()
        try:
            return await queue.counts(time.time())
        finally:
            await queue.close()
