"""Scrapy's scheduler, ours: the only module of this package that knows Scrapy."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.http import FormRequest, JsonRequest
from scrapy.utils.defer import deferred_from_coro

from tileharvest.errors import BudgetError, QueueError, TileHarvestError
from tileharvest.monitoring.overview import look
from tileharvest.queue.requests import FAILURE
from tileharvest.scheduler.completion import EngineHook
from tileharvest.scheduler.offering import Offering
from tileharvest.scheduler.opening import clear_queue, close_queue, join_work, load_filter, open_queue
from tileharvest.scheduler.politeness import Politeness
from tileharvest.scheduler.settings import scheduling_for

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from tileharvest.maps.budgets import Budget
    from tileharvest.maps.rates import Gap
    from tileharvest.monitoring.overview import Overview
    from tileharvest.politeness.gate import Gate
    from tileharvest.scheduler.settings import Scheduling
    from tileharvest.scheduler.work import Work

_logger = logging.getLogger(__name__)

POLL: Final = 0.5
"""Seconds between two looks into the queue for what other programs have pushed, while a spider stays."""

_KINDS: Final = {"Request": Request, "FormRequest": FormRequest, "JsonRequest": JsonRequest}
"""The allow-list of request classes."""


class Scheduler(BaseScheduler):
    """Offers each request once per segment, in the order of the lanes, and forgets none.

    For any spider of the project. What a spider may have besides:

    - `holds_scheduler = True`: nothing is offered before it calls `release`, because it must first find out
      how its requests are to be made;
    - `again(request)`: gives a request that failed in an earlier segment as it is to be asked in the present
      one, None if it is not to be asked any more; called once they are offered;
    - `prepared(request, segment)`: gives the request as it is to be made now, None if it is not to be made
      any more; called whenever one is offered;
    - `begin_no_more()`: ends what the spider does in `start` before it is released, when the crawl is to end;
    - `settled()`: returns when the spider asks the queue for nothing more, which is closed then.

    A request goes to the failure list when its callback or its items raise, when it could not be downloaded
    and has no errback, or when `meta["failure"]` says why. `meta["not_before"]`, seconds since 1970, delays
    it; `meta["delay"]`, seconds or from how many to how many, lets it start so long after the one before it
    of this process.
    """

    def __init__(self, crawler: Crawler, scheduling: Scheduling) -> None:
        self._crawler = crawler
        self._scheduling = scheduling
        self._offering: Offering | None = None
        """While the queue is open."""
        self._held = False
        self._stay: asyncio.Task[None] | None = None
        self._hook: EngineHook | None = None
        self._ended_early: str | None = None
        """Why the crawl ends before it has begun."""
        self._harvesting = getattr(crawler.spider, "harvesting", None)
        self._politeness = Politeness(
            scheduling.queue,
            scheduling.name,
            self,
            courtesy=scheduling.courtesy,
            local_time=scheduling.local_time,
            traffic=getattr(self._harvesting, "traffic", None),
        )
        self.left_nothing = False
        """Once it is closed: whether nothing waited any more, for now or for later."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, scheduling_for(crawler))

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    def enqueue_request(self, request: Request) -> bool:
        """As `Offering.push`."""
        assert self._offering is not None
        return self._offering.push(request)

    def next_request(self) -> Request | None:
        return None if self._offering is None else self._offering.next()

    def has_pending_requests(self) -> bool:
        """As `Offering.must_stay`."""
        return self._offering is not None and self._offering.must_stay()

    async def release(self, harvest: str, *, continued: bool) -> Work | None:
        """Offer requests from now on: without those of the present segment unless its work is continued.

        `harvest` names the work in a way that no other work is ever named. None when the queue cannot go on,
        and when the crawl is about to end.
        """
        segment, pace = self._scheduling.segment_of(None), self._politeness.pace
        offering = self._offering
        if offering is None:
            return None
        try:
            is_first = await join_work(self._scheduling, offering.entries, harvest, pace, continued=continued)
        except QueueError as error:
            # An end that came meanwhile may have closed the queue.
            if not self._politeness.is_over:
                self.fail(error)
            return None
        if self._politeness.is_over:
            return None
        if pace is not None:
            self._politeness.offers(offering.exchanging, pace)
        offering.start(is_first=is_first, has_joined=pace is not None)
        self.wake()
        return offering.work(segment, is_first=is_first)

    @property
    def gate(self) -> Gate:
        """Whether requests may start; any part of the crawl may hold it shut for a reason of its own."""
        return self._politeness.gate

    async def may_go_on(self) -> None:
        """Returns when nothing holds requests back. Raises CancelledError when the crawl is about to end."""
        await self._politeness.may_go_on()

    async def allow(self, budget: Budget) -> None:
        """Let the crawl spend no more than this. Raises QueueError."""
        await self._politeness.allow(budget)

    def obey(self, crawl_gap: Gap) -> None:
        """Keep what the site's robots.txt asks for besides, from `release` on."""
        self._politeness.obey(crawl_gap)

    async def aside(self) -> None:
        """Returns when a request may be made that is not offered here. Raises BudgetError and QueueError, and
        CancelledError when the crawl is about to end."""
        await self._politeness.aside()

    async def received_aside(self, received_bytes: int) -> None:
        """Count the answer to such a request. Raises BudgetError, QueueError."""
        await self._politeness.received_aside(received_bytes)

    async def claim_probe(self, host: str, seconds: float) -> bool:
        """Whether this crawl, and for so many seconds no other one, may find out whether a host is back."""
        try:
            claimed = await self._scheduling.queue.claim_probe(host, seconds)
            return claimed and await self._politeness.may_probe()
        except QueueError as error:
            self.fail(error)
            return False

    async def overview(self) -> Overview | None:
        """What is known of the queue; None while it is not open. Reads all that waits."""
        if self._offering is None:
            return None
        return await look(self._scheduling.shared or self._scheduling.queue, self._scheduling.clock())

    def rest(self, host: str, seconds: float) -> None:
        """Let nobody else ask the host either for so long."""
        if self._offering is not None:
            self._politeness.rest(host, seconds)

    async def _open(self, spider: Spider) -> None:
        self._held = bool(getattr(spider, "holds_scheduler", False))
        offering = self._offering_for(spider)
        try:
            await open_queue(self._scheduling)
            # At once: from now on it can be told to stop, and what was told before is not for this crawl.
            await self._politeness.begin()
            offering.failures = await clear_queue(self._scheduling)
            await load_filter(self._scheduling, offering.entries)
        except TileHarvestError as error:
            self.fail(error)
            await self._politeness.end()
            await self._scheduling.queue.close()
        else:
            self._offering = offering
        connect = self._crawler.signals.connect
        connect(self._spider_opened, signals.spider_opened)
        connect(self._callback_raised, signals.spider_error)
        connect(self._item_raised, signals.item_error)

    def _offering_for(self, spider: Spider) -> Offering:
        return Offering(
            self._scheduling,
            self._politeness,
            spider=spider,
            kinds=_KINDS,
            fingerprint=self._crawler.request_fingerprinter.fingerprint,
            count=self._count,
            wake=self.wake,
            in_flight=self._in_flight,
            failed=self.fail,
        )

    def _spider_opened(self) -> None:
        """The engine has its parts only now."""
        if self._ended_early is not None:
            # Scrapy takes this from a signal's receiver only: its scraper is not open before.
            raise CloseSpider(self._ended_early)
        self._hook = EngineHook(self._crawler.engine, self._completed)
        if self._offering is not None and not self._held:
            self._offering.start(is_first=True, has_joined=False)
        if self._scheduling.stay:
            self._stay = asyncio.ensure_future(self._look_for_pushed())

    async def _look_for_pushed(self) -> None:
        while self._offering is not None:
            await asyncio.sleep(POLL)
            self._offering.exchanging.look_again()

    async def _close(self) -> None:
        if self._stay is not None:
            self._stay.cancel()
        if self._offering is None:
            return
        try:
            self.left_nothing = await self._offering.stop()
            counts = await close_queue(self._scheduling, self._offering, self._politeness)
        except QueueError as error:
            self.fail(error)
            return
        finally:
            self._offering = None
        for name, value in counts.as_plain().items():
            self._crawler.stats.set_value(f"scheduler/{name}", value)

    def _completed(self, request: Request) -> None:
        if self._offering is not None:
            ending = getattr(self._crawler.spider, "ending", None)
            # What ended the harvest may have kept its result from being recorded.
            is_kept = ending is None or getattr(ending, "is_all_kept", False)
            self._offering.completed(request, is_kept=is_kept)

    def wake(self) -> None:
        if self._hook is not None:
            self._hook.wake()

    def _in_flight(self) -> int:
        return 0 if self._hook is None else self._hook.in_flight

    def _callback_raised(self, failure: Failure, response: Response) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            request.meta.setdefault(FAILURE, f"callback raised {failure.value!r}")

    def _item_raised(self, item: Any, response: Response | None, failure: Failure) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            request.meta.setdefault(FAILURE, f"an item's pipeline raised {failure.value!r}")

    def check(self) -> None:
        """Raises BudgetError where too little room is left on the disk."""
        if self._harvesting is not None:
            self._harvesting.check_room()

    def fail(self, error: TileHarvestError) -> None:
        """The queue cannot go on: end the crawl; what was leased is offered again next time."""
        spider: Any = self._crawler.spider
        if hasattr(spider, "give_up"):
            spider.give_up(error)
        else:
            _logger.error("%s", error)
        self._end("error")

    def stop(self, error: BudgetError | None) -> None:
        """Nothing further starts: a budget is spent, or a person has said so."""
        if error is None:
            self._end("stopped")
        elif self._crawler.spider.give_up(error):  # type: ignore[union-attr]
            self._end("budget")

    def _end(self, reason: str) -> None:
        self._politeness.cut_short()
        if self._hook is None:
            self._ended_early = self._ended_early or reason
        else:
            self._closing = asyncio.ensure_future(self._close_spider(reason))

    async def _close_spider(self, reason: str) -> None:
        spider: Any = self._crawler.spider
        if hasattr(spider, "begin_no_more"):
            # First: Scrapy waits for every request of it, and for the pauses between its repeats.
            await spider.begin_no_more()
        await self._crawler.engine.close_spider_async(reason=reason)

    def _count(self, name: str, count: int = 1) -> None:
        self._crawler.stats.inc_value(f"scheduler/{name}", count)
