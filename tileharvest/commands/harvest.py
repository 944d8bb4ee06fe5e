"""`scrapy harvest NAME... | --all`: harvest maps one after the other, and say how it went."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError

from tileharvest.commands.display import show_progress
from tileharvest.commands.lookout import Lookout, RunningHarvest
from tileharvest.commands.map_command import ProjectCommand
from tileharvest.commands.settings import progress_interval
from tileharvest.commands.terminal import (
    console,
    write_error,
    write_json,
    write_line,
    write_outcomes,
)
from tileharvest.errors import ConfigurationError, ExitStatus, QueueError
from tileharvest.harvest.settings import harvest_for, would_go_on
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import all_maps
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.settings import orders_for
from tileharvest.spiders.overviewer import OverviewerSpider
from tileharvest.spiders.tiles import TileSpider
from tileharvest.tiles.outcomes import counts_as_plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from scrapy.settings import BaseSettings


# Several harvests end with the first of these statuses that occurred.
_WORST_FIRST = (
    ExitStatus.ERROR,
    ExitStatus.USAGE,
    ExitStatus.UNREACHABLE,
    ExitStatus.BUDGET,
    ExitStatus.FAILED_TILES,
)


class Command(ProjectCommand, BaseRunSpiderCommand):
    requires_crawler_process = True
    # What a person must know appears above the lines of progress.
    log_level = "WARNING"

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] = []
        """The maps to harvest."""
        self._spiders: list[TileSpider] = []
        """Those of the harvests that have ended, in the order of their maps."""
        self._passes_over = False
        """Whether a paused map is left out: it is if the person has not named it alone."""
        self._passed_over = 0
        self._under_way: str | None = None
        """The map that is harvested now."""
        self._watching: list[asyncio.Task[None]] = []
        """What shows its progress, and the lookout."""
        self._is_stopping = False
        """Whether a person has sent a signal to end all harvests."""
        self._is_json = False

    def syntax(self) -> str:
        return "[options] NAME... | --all"

    def short_desc(self) -> str:
        return "Harvest maps, with progress, the outcome table and an exit status that tells how it went"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}. Exit status: 0 done, 1 error or stopped, 2 wrong usage or a map that"
            " another process harvests, 3 finished with failed tiles, 4 ended by a budget, 5 site unreachable"
            " or moved. With --all, and of several maps, a paused one is passed over. Spider arguments:"
            " -a dry=1 asks and reports but keeps nothing; -a day=2026-11-20 harvests for that day instead of"
            " today."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--all", action="store_true", help="harvest every map that is enabled")
        parser.add_argument("--json", action="store_true", help="write JSON for programs")

    def check(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        if bool(args) == opts.all:
            raise UsageError(
                "say which maps: scrapy harvest NAME..., or scrapy harvest --all", print_help=False
            )
        if "map" in opts.spargs:
            raise ConfigurationError(
                f"write scrapy harvest {opts.spargs['map']}: -a map= is for scrapy crawl"
            )
        self._names = self._checked_names(args, opts.spargs)

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        self._is_json, names = opts.json, self._names
        self._passes_over = opts.all or len(names) > 1
        self._harvest_in_turn(names, opts.spargs)
        if opts.json:
            write_json([_report(spider) for spider in self._spiders])
        for spider in self._spiders:
            _tell(spider, settings, opts.spargs, is_json=opts.json)
        if self._under_way is not None:
            write_error(f"map '{self._under_way}' was left at once; run it again to continue")
        statuses = {spider.crawl.exit_status for spider in self._spiders}
        if len(self._spiders) + self._passed_over < len(names):
            statuses.add(ExitStatus.ERROR)
        self.exitcode = next((status for status in _WORST_FIRST if status in statuses), ExitStatus.DONE)

    def _checked_names(self, args: list[str], arguments: dict[str, str]) -> list[str]:
        """Returns the maps to harvest. Raises ConfigurationError if anything is wrong with any of them."""
        assert self.settings is not None
        names = args or [name for name, described in all_maps(self.settings).items() if described.enabled]
        progress_interval(self.settings)
        for name in names:
            rules_for(self.settings, harvest_for(self.settings, {**arguments, "map": name}).description)
        if not names:
            raise ConfigurationError("no map is enabled: `scrapy maps` lists them")
        return names

    def _harvest_in_turn(self, names: list[str], arguments: dict[str, str]) -> None:
        assert self.crawler_process is not None
        asyncio.get_event_loop().create_task(self._harvest_and_stop(names, arguments))
        # After this crawl there may be another one.
        self.crawler_process.start(stop_after_crawl=False)

    async def _harvest_and_stop(self, names: list[str], arguments: dict[str, str]) -> None:
        # To import it too early would install another reactor. It is a module only to mypy.
        reactor: Any = importlib.import_module("twisted.internet.reactor")

        _call_at_first_signal(self._begin_to_stop)
        try:
            for name in names:
                if self._is_stopping:
                    break
                if self._passes_over and await self._is_passed_over(name):
                    self._passed_over += 1
                    continue
                self._under_way = name
                spider = await self._harvest(name, arguments)
                self._under_way = None
                if spider is None:
                    break
                self._spiders.append(spider)
        finally:
            # After a signal Scrapy stops it.
            if reactor.running and not self._is_stopping:
                reactor.stop()

    def _begin_to_stop(self) -> None:
        self._is_stopping = True
        _say("stopping: what is on the way finishes, and nothing is lost; press Ctrl-C again to quit at once")

    async def _is_passed_over(self, name: str) -> bool:
        """Tells whether the map is paused, and says so: it would keep the other maps waiting."""
        assert self.settings is not None
        try:
            since = (await orders_for(self.settings, name)).paused
        except QueueError:
            # The harvest will meet the same error and say so.
            return False
        if since is not None:
            _say(
                f"map '{name}' is paused since {since} and was passed over;"
                f" scrapy resume {name} lets it go on"
            )
        return since is not None

    async def _harvest(self, name: str, arguments: dict[str, str]) -> TileSpider | None:
        assert self.crawler_process is not None
        crawler = self.crawler_process.create_crawler(OverviewerSpider)
        # The tasks that watched the map before may not have heard yet that it is over.
        while self._watching:
            await cancel(self._watching.pop())

        def watch(spider: TileSpider) -> None:
            if hasattr(spider, "harvest"):
                lookout = Lookout(RunningHarvest(spider, is_dry=arguments.get("dry") == "1"))
                interval = progress_interval(crawler.settings)
                progress = show_progress(lookout, console(sys.stderr), interval, as_json=self._is_json)
                self._watching.extend(map(asyncio.ensure_future, (lookout.keep_watch(), progress)))

        crawler.signals.connect(watch, signals.spider_opened)
        try:
            await self.crawler_process.crawl(crawler, map=name, **arguments)
        finally:
            # Nobody waits for them: after a signal the loop ends at once, and the report comes before that.
            for task in self._watching:
                task.cancel()
        return crawler.spider if isinstance(crawler.spider, TileSpider) else None


def _call_at_first_signal(called: Callable[[], None]) -> None:
    """Calls it besides what Scrapy does then. For the second signal Scrapy sets handlers of its own."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        end_cleanly: Any = signal.getsignal(number)

        def handle(received: int, frame: Any, end_cleanly: Any = end_cleanly) -> None:
            # Not called here: what the signal interrupts may be writing to the same stream.
            loop.call_soon_threadsafe(called)
            end_cleanly(received, frame)

        signal.signal(number, handle)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _tell(spider: TileSpider, settings: BaseSettings, arguments: dict[str, str], *, is_json: bool) -> None:
    """Says how the harvest went, as far as the log has not said it already."""
    if not is_json and spider.crawl.counts:
        write_outcomes(_title(spider), spider.crawl.counts)
    if not is_json and spider.crawl.ending is not None and spider.crawl.ending.exit_status is ExitStatus.DONE:
        write_line(str(spider.crawl.ending))
    if not spider.crawl.is_finished and spider.crawl.ending is None:
        again = "run it again to continue where it stopped"
        if not would_go_on(settings, arguments, spider.harvest):
            again = "what was found is kept; run again, it begins anew, in another segment"
        write_error(f"map '{spider.harvest.description.name}' was stopped; {again}")


def _report(spider: TileSpider) -> dict[str, Any]:
    ending, status = spider.crawl.ending, spider.crawl.exit_status
    is_error = status is not ExitStatus.DONE
    return {
        "map": spider.harvest.description.name,
        "day": spider.harvest.day.isoformat(),
        # Also where it was finished by an earlier run.
        "finished": spider.crawl.is_finished or not is_error,
        "counts": counts_as_plain(spider.crawl.counts),
        "requests": spider.harvest.traffic.requests,
        "received_bytes": spider.harvest.traffic.received_bytes,
        "error": None if ending is None or not is_error else str(ending),
        "note": None if ending is None or is_error else str(ending),
        "exit_status": int(status),
    }


def _title(spider: TileSpider) -> str:
    traffic = spider.harvest.traffic
    return (
        f"{spider.harvest.description.name}, {spider.harvest.day}:"
        f" {traffic.requests:,} requests, {bytes_in_words(traffic.received_bytes)} received"
    )
