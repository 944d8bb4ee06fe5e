"""`scrapy harvest NAME... | --all`: harvest maps one after the other, and say how it went."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError

from tileharvest.commands.display import show_progress
from tileharvest.commands.settings import ask_history, progress_interval, quieten
from tileharvest.commands.terminal import (
    console,
    counts_as_plain,
    failing_clearly,
    write_error,
    write_json,
    write_line,
    write_outcomes,
)
from tileharvest.errors import ConfigurationError, ExitStatus, QueueError
from tileharvest.harvest.settings import harvest_for, would_go_on
from tileharvest.history.summaries import progress_of
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import all_maps
from tileharvest.monitoring.figures import moment_in_words
from tileharvest.monitoring.lookout import Lookout
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.settings import QueueKind, orders_for, queue_kind
from tileharvest.spiders.overviewer import OverviewerSpider
from tileharvest.spiders.tiles import TileSpider
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection

    from scrapy.settings import BaseSettings

    from tileharvest.history.summaries import HarvestSummary
    from tileharvest.politeness.reasons import Reason

# Several harvests end with the first of these statuses that occurred.
_WORST_FIRST = (
    ExitStatus.ERROR,
    ExitStatus.USAGE,
    ExitStatus.UNREACHABLE,
    ExitStatus.BUDGET,
    ExitStatus.FAILED_TILES,
)


class Command(BaseRunSpiderCommand):
    requires_project = True

    def __init__(self) -> None:
        super().__init__()
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

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        self._is_json = opts.json
        # What a person must know appears above the lines of progress.
        quieten(self.settings, "WARNING")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if bool(args) == opts.all:
            raise UsageError(
                "say which maps: scrapy harvest NAME..., or scrapy harvest --all", print_help=False
            )
        assert self.settings is not None
        with failing_clearly(self):
            names = self._checked_names(args, opts.spargs)
            self._passes_over = opts.all or len(names) > 1
            self._harvest_in_turn(names, opts.spargs)
            if opts.json:
                write_json([_report(spider) for spider in self._spiders])
            for spider in self._spiders:
                _tell(spider, self.settings, opts.spargs, is_json=opts.json)
            if self._under_way is not None:
                write_error(f"map '{self._under_way}' was left at once; run it again to continue")
            statuses = {_exit_status(spider) for spider in self._spiders}
            if len(self._spiders) + self._passed_over < len(names):
                statuses.add(ExitStatus.ERROR)
            self.exitcode = next((status for status in _WORST_FIRST if status in statuses), ExitStatus.DONE)

    def _checked_names(self, args: list[str], arguments: dict[str, str]) -> list[str]:
        """The maps to harvest. Raises ConfigurationError if anything is wrong with any of them."""
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
                lookout = Lookout(_WatchedCrawl(spider, is_dry=arguments.get("dry") == "1"))
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


class _WatchedCrawl:
    """What the lookout asks a crawl."""

    def __init__(self, spider: TileSpider, *, is_dry: bool) -> None:
        """`is_dry`: whether it keeps nothing, so that neither history nor other processes know of it."""
        self.harvest = spider.harvest
        self._settings = spider.crawler.settings
        self.is_shared = not is_dry and queue_kind(self._settings) is QueueKind.REDIS
        assert spider.crawl.rules is not None
        self._crawl = spider.crawl
        self._rules = spider.crawl.rules
        self._is_dry = is_dry

    def reasons(self) -> Collection[Reason]:
        politeness = self._crawl.politeness
        return () if politeness is None else politeness.reasons

    def quiet_until(self) -> str | None:
        now = datetime.now(self.harvest.description.zone_info)
        return moment_in_words(self._rules.quiet_until(now))

    async def paused_since(self) -> str | None:
        return (await orders_for(self._settings, self.harvest.description.name)).paused

    async def progress(self) -> HarvestSummary | None:
        if self._is_dry:
            return None
        settings, name = self._settings, self.harvest.description.name
        return await asyncio.to_thread(ask_history, settings, lambda history: progress_of(history, name))


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
    return {
        "map": spider.harvest.description.name,
        "day": spider.harvest.day.isoformat(),
        "finished": spider.crawl.is_finished,
        "counts": counts_as_plain(spider.crawl.counts),
        "requests": spider.harvest.traffic.requests,
        "received_bytes": spider.harvest.traffic.received_bytes,
        "error": None if spider.crawl.ending is None else str(spider.crawl.ending),
        "exit_status": int(_exit_status(spider)),
    }


def _exit_status(spider: TileSpider) -> ExitStatus:
    if spider.crawl.ending is not None:
        return spider.crawl.ending.exit_status
    if not spider.crawl.is_finished:
        return ExitStatus.ERROR
    return ExitStatus.FAILED_TILES if spider.crawl.counts.get(Outcome.FAILED) else ExitStatus.DONE


def _title(spider: TileSpider) -> str:
    traffic = spider.harvest.traffic
    return (
        f"{spider.harvest.description.name}, {spider.harvest.day}:"
        f" {traffic.requests:,} requests, {bytes_in_words(traffic.received_bytes)} received"
    )
