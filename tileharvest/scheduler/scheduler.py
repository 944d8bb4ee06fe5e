"""Scrapy's scheduler, ours: the interface that Scrapy calls, and what other parts of a crawl ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.defer import deferred_from_coro

from tileharvest.errors import QueueError, TileHarvestError
from tileharvest.monitoring.overview import look
from tileharvest.queue.requests import FAILURE
from tileharvest.scheduler.completion import EngineHook
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.offers import Offers
from tileharvest.scheduler.politeness import Politeness
from tileharvest.scheduler.settings import scheduling_for
from tileharvest.scheduler.spider import as_held

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from tileharvest.errors import BudgetError
    from tileharvest.maps.budgets import Budget
    from tileharvest.maps.rates import Gap
    from tileharvest.monitoring.overview import Overview
    from tileharvest.politeness.gate import Gate
    from tileharvest.queue.port import Counts
    from tileharvest.scheduler.fleet import Fleet
    from tileharvest.scheduler.settings import Scheduling


class Scheduler(BaseScheduler):
    """Offers each request once per segment, in the order of the lanes, and forgets none.

    It serves any spider of the project. A `HeldSpider` may decide when requests are offered, and how each is
    made.

    A request goes to the failure list when its callback or its items raise, when it could not be downloaded
    and has no errback, or when `meta["failure"]` says why. `meta["not_before"]`, seconds since 1970, delays
    it. `meta["delay"]`, seconds or from how many to how many, lets it start so long after the one before it
    of this process.
    """

    def __init__(self, crawler: Crawler, scheduling: Scheduling) -> None:
        self._crawler = crawler
        self._scheduling = scheduling
        self._spider = as_held(crawler.spider)
        self._engine = EngineHook(self._completed)
        self._offers: Offers | None = None
        """While the queue is open."""
        self._crawl = crawl_of(crawler)
        self._crawl.scheduler = self
        harvest = self._crawl.harvest
        self._politeness = Politeness(
            scheduling.queue,
            scheduling.name,
            self,
            rules=scheduling.rules,
            local_time=scheduling.local_time,
            traffic=None if harvest is None else harvest.traffic,
        )
        self.left_nothing = False
        """Once it is closed: whether nothing waited any more, for now or for later."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, scheduling_for(crawler))

    # What Scrapy calls

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open())

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    def enqueue_request(self, request: Request) -> bool:
        """As `Offers.push`."""
        assert self._offers is not None
        return self._offers.push(request)

    def next_request(self) -> Request | None:
        return None if self._offers is None else self._offers.next()

    def has_pending_requests(self) -> bool:
        """As `Offers.must_stay`."""
        return self._offers is not None and self._offers.must_stay()

    async def _open(self) -> None:
        offers = Offers(self._scheduling, self._politeness, self._crawler, self._engine)
        try:
            await offers.open()
        except TileHarvestError as error:
            self._crawl.end(error)
            await self._politeness.end()
            await self._scheduling.queue.close()
        else:
            self._offers = offers
        connect = self._crawler.signals.connect
        connect(self._spider_opened, signals.spider_opened)
        connect(self._callback_raised, signals.spider_error)
        connect(self._item_raised, signals.item_error)

    def _spider_opened(self) -> None:
        """The engine has its parts only now."""
        if self._crawl.is_ending:
            return
        self._engine.attach(self._crawler.engine)
        if self._offers is not None and not self._spider.holds_scheduler:
            self._offers.start()

    def _completed(self, request: Request) -> None:
        if self._offers is not None:
            self._offers.completed(request)

    def _callback_raised(self, failure: Failure, response: Response) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            request.meta.setdefault(FAILURE, f"callback raised {failure.value!r}")

    def _item_raised(self, item: Any, response: Response | None, failure: Failure) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            request.meta.setdefault(FAILURE, f"an item's pipeline raised {failure.value!r}")

    async def _close(self) -> None:
        if self._offers is None:
            return
        try:
            self.left_nothing = await self._offers.stop()
            counts = await self._last_counts(self._offers)
        except QueueError as error:
            self._crawl.end(error)
            return
        finally:
            self._offers = None
        for name, value in counts.as_plain().items():
            self._crawler.stats.set_value(f"scheduler/{name}", value)

    async def _last_counts(self, offers: Offers) -> Counts:
        """Let the queue go, and return its counts just before. Raises QueueError."""
        try:
            await self._politeness.end()
            return await self._scheduling.queue.counts(self._scheduling.clock())
        finally:
            await offers.worker.close()

    # What a harvest asks

    async def release(self, harvest: str, *, continued: bool) -> Fleet | None:
        """Offer requests from now on, without those of the present segment unless its work is continued.

        `harvest` names the work in a way that no other work is ever named. Returns None when the queue cannot
        go on, and when the crawl is about to end.
        """
        if self._offers is None:
            return None
        try:
            return await self._offers.join(harvest, continued=continued)
        except (QueueError, RuntimeError) as error:
            # An end that came meanwhile may have closed the queue.
            if self._politeness.is_over:
                return None
            if not isinstance(error, QueueError):
                raise
            self._crawl.end(error)
            return None

    async def overview(self) -> Overview | None:
        """Returns what is known of the queue, or None while it is not open. Reads all that waits."""
        if self._offers is None:
            return None
        return await look(self._scheduling.shared or self._scheduling.queue, self._scheduling.clock())

    # What the map's owner may expect

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
        """Returns when a request may be made that is not offered here.

        Raises BudgetError and QueueError, and CancelledError when the crawl is about to end.
        """
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
            self._crawl.end(error)
            return False

    def rest(self, host: str, seconds: float) -> None:
        """Let nobody else ask the host either for so long."""
        if self._offers is not None:
            self._politeness.rest(host, seconds)

    # What politeness tells

    def wake(self) -> None:
        """A request may start that had to wait."""
        self._engine.wake()

    def check(self) -> None:
        """Raises BudgetError where too little room is left on the disk."""
        if self._crawl.harvest is not None:
            self._crawl.harvest.check_room()

    def fail(self, error: TileHarvestError) -> None:
        """The queue cannot go on. What was leased is offered again next time."""
        self._crawl.end(error)

    def cut_short(self) -> None:
        """The crawl ends: nobody waits any more for what is held back."""
        self._politeness.cut_short()

    def stop(self, error: BudgetError | None) -> None:
        """Nothing further starts: a budget is spent, or a person has said so."""
        self._crawl.end(error or "stopped")
