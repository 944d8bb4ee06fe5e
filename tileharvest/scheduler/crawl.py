"""What the Scrapy parts of one crawl share, and the one way to end it."""

from __future__ import annotations

import asyncio
import gc
import logging
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from scrapy import signals
from scrapy.exceptions import CloseSpider, NotConfigured

from tileharvest.errors import BudgetError, ExitStatus, TileHarvestError
from tileharvest.history.costs import Traffic
from tileharvest.maps.settings import setting
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.robots import Robots
from tileharvest.politeness.waits import Wait
from tileharvest.queue.cancellation import cancel
from tileharvest.scheduler.completion import is_closing
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.politeness.rules import Rules
    from tileharvest.scheduler.politeness import Politeness

_logger = logging.getLogger(__name__)

_LEVELS: Final = {ExitStatus.DONE: logging.INFO, ExitStatus.BUDGET: logging.WARNING}
"""Of the log, for ends that are no errors."""

_CUT_SHORT: Final = ("shutdown", "stopped")
"""Why a spider has closed, in Scrapy's words, if a person has ended it: by a signal, or by `scrapy stop`."""


class Crawl:
    """One crawl, of whatever spider under whatever scheduler. `crawl_of` gives it to each part."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.arguments: Mapping[str, str] = {}
        """Of a tile spider."""
        self.harvest: Harvest | None = None
        """None for a spider that harvests nothing, or was refused its harvest."""
        self._traffic = Traffic()
        self.rules: Rules | None = None
        """What the map's owner may expect; given with the harvest."""
        self.robots = Robots()
        """What the sites' robots.txt allow: everything, until they were read."""
        self.politeness: Politeness | None = None
        """Decides whether requests may start. None before our scheduler is made, and without it."""
        self.waits: list[Wait] = []
        """What waits beside the queue, the innermost last."""
        self.oldest_requests: list[Callable[[], Wait | None]] = []
        """Each gives what is known of the request that has been on the way for longest, at one of the
        download handlers of tiles."""
        self._got = (-1, -1, -1)
        """The requests, bytes and results that there were at the last look."""
        self._still_since = 0.0
        """Since when there were no more of them, on the clock of the event loop."""
        self._told = ""
        """The wait that the log has told last."""
        self.beginning: asyncio.Task[Any] | None = None
        """What the spider does before requests are offered; it is cancelled when the crawl ends."""
        self.ending: TileHarvestError | None = None
        """The failure that ended the crawl."""
        self.refused: tuple[str, ...] = ()
        """Of each layer of the site that cannot be kept, the line that says why."""
        self.is_all_kept = True
        """Whether each result is recorded. Some failures that end a crawl drop results."""
        self.is_finished = False
        """Whether the harvest reached its end."""
        self.counts: Mapping[Outcome, int] = {}
        """The exact counts of the harvest, once the spider has closed."""
        self.failures: Mapping[str, int] = {}
        """Why tiles have failed, and how many for each reason, once the spider has closed."""
        self._reason: str | None = None
        self._is_opened = False
        self._closing: asyncio.Task[None] | None = None
        self._closed_for: str | None = None
        """Why the spider has closed, in Scrapy's words."""
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @property
    def traffic(self) -> Traffic:
        """Counts what it costs; in the harvest where there is one."""
        return self._traffic if self.harvest is None else self.harvest.traffic

    @property
    def is_tool(self) -> bool:
        """Whether one of Scrapy's tools asks, and not the spider itself: `shell`, `fetch`, `view`, `parse`,
        `check` or `bench`.

        What they ask leaves nothing behind, and they must not take what waits for the spider. All but the
        shell put a `start` of their own into the spider's class; the shell opens the spider without a crawl.
        """
        crawler = self.crawler
        return not crawler.crawling or crawler.spidercls.start.__module__.startswith("scrapy.commands.")

    @property
    def is_ending(self) -> bool:
        """Whether anything here has ended it; Scrapy may have been stopped besides."""
        return self._reason is not None

    @property
    def exit_status(self) -> ExitStatus:
        """The status with which a command ends that has run this crawl. A crawl that was cut short by a
        person, and no failure, has an error's."""
        if self.ending is not None:
            return self.ending.exit_status
        if self.harvest is None:
            return ExitStatus.ERROR if self._closed_for in _CUT_SHORT else ExitStatus.DONE
        if not self.is_finished:
            return ExitStatus.ERROR
        if self.refused:
            return ExitStatus.UNREACHABLE
        return ExitStatus.FAILED_TILES if self.counts.get(Outcome.FAILED) else ExitStatus.DONE

    def wait(self) -> Wait | None:
        """Returns what holds the crawl up, where it has for some seconds; None while it gets on, and where a
        person or quiet hours hold it up, which is told elsewhere. To be asked every second."""
        now, traffic = asyncio.get_running_loop().time(), self.traffic
        results = 0 if self.harvest is None else sum(self.harvest.tally.values())
        got = traffic.requests, traffic.received_bytes, results
        if self._got != got:
            self._got, self._still_since = got, now
        reasons = set() if self.politeness is None else self.politeness.reasons
        if self.is_ending or reasons & {Reason.PAUSED, Reason.QUIET}:
            return None
        return next((wait for wait in self._waits() if wait.is_long(now)), None)

    def wait_but(self, told: str) -> Wait | None:
        """Returns the same as `wait`, but None where that was told last."""
        wait = self.wait()
        return None if wait is None or wait.what == told else wait

    def say_wait(self) -> None:
        """Tells the log what holds the crawl up, once for each."""
        wait = self.wait_but(self._told)
        if wait is None:
            return
        self._told = wait.what
        zone = UTC if self.harvest is None else self.harvest.description.zone_info
        _logger.info("%s", wait.in_words(asyncio.get_running_loop().time(), datetime.now(zone)))

    def _waits(self) -> Iterator[Wait]:
        """Yields what the crawl may wait for at this moment, what is known best before the rest."""
        since = self._still_since
        known = [Wait(wait.what, max(since, wait.since), wait.until) for wait in reversed(self.waits)]
        if self.politeness is not None:
            known += self.politeness.waits(since)
        yield from known
        under_way = [wait for oldest in self.oldest_requests if (wait := oldest()) is not None]
        if under_way:
            oldest = min(under_way, key=lambda wait: wait.since)
            yield Wait(oldest.what, max(since, oldest.since), oldest.until)
        elif self.harvest is not None and not known and (what := self.harvest.waits_for) is not None:
            yield Wait(what, since)

    def end(self, why: TileHarvestError | str) -> None:
        """End the crawl: for a failure, or else for a reason in Scrapy's words, such as `finished`.

        The first failure is logged and kept in `ending`, also when the crawl is ending already. Requests on
        the way are finished first.
        """
        if isinstance(why, TileHarvestError):
            if self.ending is not None:
                return
            self.ending = why
            self.is_all_kept = isinstance(why, BudgetError) and why.is_all_kept
            if self._is_opened:
                self._say(why)
            why = why.close_reason
        if self._reason is not None:
            return
        self._reason = why
        if self.politeness is not None:
            self.politeness.cut_short()
        if self._is_opened and not is_closing(self.crawler.engine):
            self._closing = asyncio.ensure_future(self._close(why))

    def _opened(self) -> None:
        self._is_opened = True
        if self.ending is not None:
            self._say(self.ending)
        if self._reason is not None:
            # Before this signal Scrapy's scraper is not open, and nothing else can close the spider.
            raise CloseSpider(self._reason)

    def _closed(self, reason: str) -> None:
        self._closed_for = reason

    async def _close(self, reason: str) -> None:
        # First: Scrapy waits for every request of it, and for the pauses between its repeats.
        if self.beginning is not None:
            await cancel(self.beginning)
        await self.crawler.engine.close_spider_async(reason=reason)

    def _say(self, error: TileHarvestError) -> None:
        assert self.crawler.spider is not None
        self.crawler.spider.logger.log(_LEVELS.get(error.exit_status, logging.ERROR), "%s", error)


_CRAWLS: Final[dict[Crawler, Crawl]] = {}
"""Until they are forgotten, or as long as the process lives."""


def crawl_of(crawler: Crawler) -> Crawl:
    """Returns the crawler's crawl, which is made when a part first asks for it."""
    if crawler not in _CRAWLS:
        _CRAWLS[crawler] = Crawl(crawler)
    return _CRAWLS[crawler]


def forget(crawler: Crawler) -> None:
    """The crawl is over, and nobody asks about it any more. A process that makes many crawlers says so: each
    takes some megabytes."""
    _CRAWLS.pop(crawler, None)


def harvest_of(crawler: Crawler) -> Harvest:
    """Returns the harvest of the crawler's spider. Raises NotConfigured for a spider that harvests nothing,
    which switches the asking component off without a word."""
    harvest = crawl_of(crawler).harvest
    if harvest is None:
        raise NotConfigured
    return harvest


def relax_garbage_collection(settings: BaseSettings) -> None:
    """Let the collector of reference cycles look less often, and never again at what was imported."""
    _freeze_what_was_imported()
    gc.set_threshold(int(setting(settings, "GC_THRESHOLD")))


@cache
def _freeze_what_was_imported() -> None:
    """Once in a process: a later crawl would keep for ever what the crawls before it have left."""
    gc.freeze()
