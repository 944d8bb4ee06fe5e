"""`scrapy harvest NAME... | --all`: harvest maps one after the other, and say how it went."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError

from tileharvest.errors import ConfigurationError, ExitStatus
from tileharvest.outcomes import Outcome
from tileharvest.progress import show_progress
from tileharvest.spiders.overviewer import OverviewerSpider
from tileharvest.spiders.tiles import TileSpider
from tileharvest.terminal import (
    bytes_in_words,
    console,
    counts_as_plain,
    failing_clearly,
    write_error,
    write_json,
    write_line,
    write_outcomes,
)
from tileharvest.wiring import all_maps, harvesting_for, quieten

if TYPE_CHECKING:
    import argparse

# The first that occurred is the exit status of several harvests.
_WORST_FIRST = (ExitStatus.ERROR, ExitStatus.USAGE, ExitStatus.UNREACHABLE, ExitStatus.FAILED_TILES)


class Command(BaseRunSpiderCommand):
    requires_project = True

    def syntax(self) -> str:
        return "[options] NAME... | --all"

    def short_desc(self) -> str:
        return "Harvest maps, with progress, the outcome table and an exit status that tells how it went"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}. Exit status: 0 done, 1 error or stopped, 2 wrong usage, 3 finished with"
            " failed tiles, 5 site unreachable or moved. Spider arguments: -a dry=1 asks and reports but"
            " keeps nothing; -a day=2026-11-20 harvests for that day instead of today."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--all", action="store_true", help="harvest every map that is enabled")
        parser.add_argument("--json", action="store_true", help="write JSON for programs")

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        # Scrapy's log would tear the line of progress; what a person must know comes through.
        quieten(self.settings, "WARNING")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if bool(args) == opts.all:
            raise UsageError(
                "say which maps: scrapy harvest NAME..., or scrapy harvest --all", print_help=False
            )
        with failing_clearly(self):
            names = self._checked_names(args, opts.spargs)
            spiders = self._harvest_in_turn(names, opts.spargs)
            reports = [_report(spider) for spider in spiders]
            if opts.json:
                write_json(reports)
            for spider in spiders:
                if not opts.json and spider.counts:
                    write_outcomes(_title(spider), spider.counts)
                if not opts.json and _is_done_already(spider):
                    write_line(str(spider.ending))
                if not spider.finished and spider.ending is None:
                    name = spider.harvesting.description.name
                    write_error(f"map '{name}' was stopped; run it again to continue where it stopped")
            statuses = {_exit_status(spider) for spider in spiders} | (
                {ExitStatus.ERROR} if len(spiders) < len(names) else set()
            )
            self.exitcode = next((status for status in _WORST_FIRST if status in statuses), ExitStatus.DONE)

    def _checked_names(self, args: list[str], arguments: dict[str, str]) -> list[str]:
        """The maps to harvest, after everything that can be wrong with them was looked at."""
        assert self.settings is not None
        names = args or [name for name, described in all_maps(self.settings).items() if described.enabled]
        for name in names:
            harvesting_for(self.settings, {**arguments, "map": name})
        if not names:
            raise ConfigurationError("no map is enabled: `scrapy maps` lists them")
        return names

    def _harvest_in_turn(self, names: list[str], arguments: dict[str, str]) -> list[TileSpider]:
        assert self.crawler_process is not None
        spiders: list[TileSpider] = []
        asyncio.get_event_loop().create_task(self._harvest_and_stop(names, arguments, spiders))
        # Not to be stopped after a crawl: there may be another one.
        self.crawler_process.start(stop_after_crawl=False)
        return spiders

    async def _harvest_and_stop(
        self, names: list[str], arguments: dict[str, str], spiders: list[TileSpider]
    ) -> None:
        # Importing it installs one; by now the right one is there. It is a module only to mypy.
        reactor: Any = importlib.import_module("twisted.internet.reactor")

        try:
            for name in names:
                spider = await self._harvest(name, arguments)
                if spider is not None:
                    spiders.append(spider)
                if spider is None or (not spider.finished and spider.ending is None):
                    break
        finally:
            if reactor.running:
                reactor.stop()

    async def _harvest(self, name: str, arguments: dict[str, str]) -> TileSpider | None:
        assert self.crawler_process is not None
        crawler = self.crawler_process.create_crawler(OverviewerSpider)
        watching: list[asyncio.Task[None]] = []

        def watch(spider: TileSpider) -> None:
            if hasattr(spider, "harvesting"):
                interval = crawler.settings.getfloat("PROGRESS_INTERVAL")
                progress = show_progress(spider.harvesting, console(sys.stderr), interval)
                watching.append(asyncio.ensure_future(progress))

        crawler.signals.connect(watch, signals.spider_opened)
        try:
            await self.crawler_process.crawl(crawler, map=name, **arguments)
        finally:
            for task in watching:
                task.cancel()
        return crawler.spider if isinstance(crawler.spider, TileSpider) else None


def _report(spider: TileSpider) -> dict[str, Any]:
    return {
        "map": spider.harvesting.description.name,
        "day": spider.harvesting.day.isoformat(),
        "finished": spider.finished,
        "counts": counts_as_plain(spider.counts),
        "requests": spider.harvesting.traffic.requests,
        "received_bytes": spider.harvesting.traffic.received_bytes,
        "error": None if spider.ending is None else str(spider.ending),
        "exit_status": int(_exit_status(spider)),
    }


def _is_done_already(spider: TileSpider) -> bool:
    return spider.ending is not None and spider.ending.exit_status is ExitStatus.DONE


def _exit_status(spider: TileSpider) -> ExitStatus:
    if spider.ending is not None:
        return spider.ending.exit_status
    if not spider.finished:
        return ExitStatus.ERROR
    return ExitStatus.FAILED_TILES if spider.counts.get(Outcome.FAILED) else ExitStatus.DONE


def _title(spider: TileSpider) -> str:
    traffic = spider.harvesting.traffic
    return (
        f"{spider.harvesting.description.name}, {spider.harvesting.day}:"
        f" {traffic.requests:,} requests, {bytes_in_words(traffic.received_bytes)} received"
    )
