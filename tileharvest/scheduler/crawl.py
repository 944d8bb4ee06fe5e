"""What the Scrapy parts of one crawl share, and the only way to end the crawl."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final

from scrapy import signals
from scrapy.exceptions import NotConfigured

from tileharvest.errors import BudgetError, ExitStatus, TileHarvestError
from tileharvest.history.costs import CostMeter
from tileharvest.politeness.probe import AskedRobots
from tileharvest.politeness.waits import WORTH_A_WORD, HoldReason, Wait
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy.crawler import Crawler

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.politeness.map_throttle import MapThrottle
    from tileharvest.politeness.rules import Rules

_logger = logging.getLogger(__name__)

_LEVELS: Final = {ExitStatus.DONE: logging.INFO, ExitStatus.BUDGET: logging.WARNING}
"""The log levels of ends that are not errors."""

_ATTRIBUTE: Final = "tileharvest"
"""The name of the crawler's attribute that holds its crawl."""

_CUT_SHORT: Final = ("shutdown", "stopped")
"""Scrapy's reasons for the end of a spider that a person has ended, by a signal or by `tileharvest stop`."""

_MOMENT: Final = 0.05
"""Seconds between two cancellations."""


class CrawlContext:
    """One crawl of any spider, under any scheduler. Each part gets it by `crawl_of`."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.arguments: Mapping[str, str] = {}
        """The arguments of a tile spider."""
        self.harvest: Harvest | None = None
        """The harvest. None for a spider that harvests nothing, or whose harvest was refused."""
        self.cost_meter = CostMeter()
        """What the crawl has cost. That of the harvest, if there is one."""
        self.rules: Rules | None = None
        """The rules of the map. None for a spider that asks for no map."""
        self.robots = AskedRobots()
        """The rules of the sites' robots.txt. They allow everything until they were read."""
        self.throttle: MapThrottle | None = None
        """Says when the next request to a site may start. None for a spider that asks for no map."""
        self.waits: list[Wait] = []
        """The waits beside the queue, the innermost last."""
        self.oldest_requests: list[Callable[[], Wait | None]] = []
        """Functions of the download handlers of tiles: each returns the wait for its oldest request."""
        self._got, self._still_since = (-1, -1, -1), -inf
        """The numbers of requests, bytes and results at the last look, and since when they are the same."""
        self._told = ""
        """The wait that was logged last."""
        self.beginning: asyncio.Task[Any] | None = None
        """What the spider does before requests are offered. It is cancelled when the crawl ends."""
        self.ending: TileHarvestError | None = None
        """The failure that ended the crawl."""
        self.refused: tuple[str, ...] = ()
        """A line for each layer of the site that cannot be kept, which says why."""
        self.is_all_kept = True
        """Whether each result is recorded. Some failures that end a crawl drop results."""
        self.is_finished = False
        """Whether the harvest has reached its end."""
        self.counts: Mapping[Outcome, int] = {}
        self.failures: Mapping[str, int] = {}
        """The exact counts of the harvest, and the failed tiles for each reason, when it has ended."""
        self.is_ending = False
        """Whether any part has ended the crawl. False if only Scrapy itself was stopped."""
        self.close_reason = "finished"
        """The reason, in Scrapy's words, for which a part has ended the crawl."""
        self._is_opened = False
        self._closing: asyncio.Task[None] | None = None
        crawler.signals.connect(self._opened, signals.spider_opened)

    @property
    def is_tool(self) -> bool:
        """Whether one of Scrapy's tools makes the requests, and not the spider itself: `shell`, `fetch`,
        `view`, `parse`, `check` or `bench`. They leave nothing behind, and take nothing that waits."""
        # All tools but the shell put a `start` of their own into the spider's class. The shell opens the
        # spider without a crawl.
        crawler = self.crawler
        return not crawler.crawling or crawler.spidercls.start.__module__.startswith("scrapy.commands.")

    @property
    def exit_status(self) -> ExitStatus:
        """The exit status of a command that has run this crawl. One that was cut short ends with an error."""
        if self.ending is not None:
            return self.ending.exit_status
        if self.harvest is None:
            reason = self.crawler.stats.get_value("finish_reason")
            return ExitStatus.ERROR if reason in _CUT_SHORT else ExitStatus.DONE
        if not self.is_finished:
            return ExitStatus.ERROR
        if self.refused:
            return ExitStatus.UNREACHABLE
        return ExitStatus.FAILED_TILES if self.counts.get(Outcome.FAILED) else ExitStatus.DONE

    def wait(self) -> Wait | None:
        """Returns what has held the crawl up for some seconds, or None if it makes progress. Call this every
        second. A pause by a person does not count, because it is said elsewhere."""
        now, throttle, cost_meter = asyncio.get_running_loop().time(), self.throttle, self.cost_meter
        results = 0 if self.harvest is None else sum(self.harvest.tally.values())
        got = cost_meter.requests, cost_meter.received_bytes, results
        if self._got != got:
            self._got, self._still_since = got, now
        held = None if throttle is None else throttle.held
        is_paused = held is not None and held.reason is HoldReason.PAUSED
        if now - self._still_since < WORTH_A_WORD or self.is_ending or is_paused:
            return None
        # The most certain wait first.
        if self.waits:
            return self.waits[-1]
        if throttle is not None and held is not None and held.until is not None:
            resting = f"{throttle.host}, which has asked to be left alone"
            is_quiet = held.reason is HoldReason.QUIET
            return Wait("the end of the quiet hours" if is_quiet else resting, held.until)
        return next((wait for oldest in self.oldest_requests if (wait := oldest()) is not None), None)

    def say_wait(self) -> None:
        """Logs what holds the crawl up, once for each wait."""
        wait = self.wait()
        if wait is None or wait.what == self._told:
            return
        self._told = wait.what
        zone = UTC if self.harvest is None else self.harvest.description.zone_info
        _logger.info("%s", wait.in_words(datetime.now(zone)))

    def end(self, why: TileHarvestError | str) -> None:
        """Ends the crawl for a failure, or for a reason in Scrapy's words. Requests on the way are finished
        first. The first failure is logged, also if the crawl is ending already."""
        if isinstance(why, TileHarvestError):
            # Results may be dropped while the crawl ends for a failure that drops none.
            self.is_all_kept &= isinstance(why, BudgetError) and why.is_all_kept
            if self.ending is not None:
                return
            self.ending = why
            if self._is_opened:
                self._say(why)
            why = why.close_reason
        if self.is_ending:
            return
        self.is_ending, self.close_reason = True, why
        if self.throttle is not None:
            self.throttle.end()
        if self._is_opened:
            self._closing = asyncio.ensure_future(self._close(why))

    def _opened(self) -> None:
        self._is_opened = True
        if self.ending is not None:
            self._say(self.ending)

    async def _close(self, reason: str) -> None:
        # This comes first: Scrapy waits for every request of it, and for the pauses between its repeats.
        if self.beginning is not None:
            await cancel(self.beginning)
        await self.crawler.engine.close_spider_async(reason=reason)

    def _say(self, error: TileHarvestError) -> None:
        assert self.crawler.spider is not None
        self.crawler.spider.logger.log(_LEVELS.get(error.exit_status, logging.ERROR), "%s", error)


def crawl_of(crawler: Crawler) -> CrawlContext:
    """Returns the crawler's crawl. It is made when a part first asks for it, and ends with the crawler."""
    # An attribute of the crawler: a table of crawls would keep all crawlers of a process alive.
    crawl: CrawlContext = vars(crawler).setdefault(_ATTRIBUTE, None) or CrawlContext(crawler)
    vars(crawler)[_ATTRIBUTE] = crawl
    return crawl


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancels the task again and again, and returns when it has ended. A call that it awaits may lose a
    cancellation: redis-py 8.1 takes one for a timeout while it reads from a new subscription."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_MOMENT)


def as_error(error: BaseException) -> TileHarvestError:
    """Returns the error if it is one of ours. Any other is a mistake in the program, and is logged."""
    if isinstance(error, TileHarvestError):
        return error
    _logger.error("a mistake in the program stopped the crawl", exc_info=error)
    return TileHarvestError(f"the crawl stopped ({error!r}); nothing was lost: run again, and report this")


def harvest_of(crawler: Crawler) -> Harvest:
    """Returns the harvest of the crawler's spider. Raises NotConfigured for a spider that harvests nothing:
    Scrapy then switches the component off that has asked, without a message."""
    harvest = crawl_of(crawler).harvest
    if harvest is None:
        raise NotConfigured
    return harvest
