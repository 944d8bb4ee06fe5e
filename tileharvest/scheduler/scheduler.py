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

from tileharvest.errors import QueueError
from tileharvest.scheduler.codec import UnreadableRequestError, UnwritableRequestError
from tileharvest.scheduler.completion import EngineHook
from tileharvest.scheduler.exchanging import POLL, Exchanging
from tileharvest.scheduler.port import Entry
from tileharvest.scheduler.requests import FAILURE, NOT_BEFORE, PUSHED, RequestWriter
from tileharvest.scheduler.seen import SeenFilter
from tileharvest.wiring import scheduling_for

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from tileharvest.scheduler import port
    from tileharvest.scheduler.port import Exchange, Lease
    from tileharvest.wiring import Scheduling

_logger = logging.getLogger(__name__)

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
      any more; called whenever one is offered.

    A request goes to the failure list when its callback or its items raise, when it could not be downloaded
    and has no errback, or when `meta["failure"]` says why. `meta["not_before"]`, seconds since 1970, delays
    it.
    """

    def __init__(self, crawler: Crawler, scheduling: Scheduling) -> None:
        self._crawler = crawler
        self._scheduling = scheduling
        self._filters: dict[str, SeenFilter] = {}
        self._under_way: dict[Request, Lease] = {}
        self._failures: list[port.Failure] = []
        self._said_waiting = False
        self._stay: asyncio.Task[None] | None = None
        self._exchanging: Exchanging | None = None
        self._hook: EngineHook | None = None
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
        """False for what is dropped: too deep, or not to be written. Whether it was seen in its segment is
        known for sure when the queue has looked; a seen one is dropped there, and counted."""
        assert self._exchanging is not None
        meta, scheduling = request.meta, self._scheduling
        if scheduling.max_depth is not None and meta.get("depth", 0) > scheduling.max_depth:
            self._count("dropped/depth")
            return False
        try:
            body = self._writer.write(request)
        except UnwritableRequestError as error:
            _logger.error("%s was not queued: %s", request, error)
            self._count("dropped/unwritable")
            return False
        segment = scheduling.segment_of(request)
        fingerprint = None if request.dont_filter or request.method == "POST" else self._fingerprint(request)
        maybe_seen = fingerprint is not None and self._maybe_seen(segment, fingerprint)
        self._exchanging.push(
            Entry(body, segment, fingerprint, request.priority, meta.get(NOT_BEFORE), maybe_seen)
        )
        return True

    def next_request(self) -> Request | None:
        if self._held or self._exchanging is None:
            return None
        while (lease := self._exchanging.next_lease()) is not None:
            request = self._read(lease)
            if request is not None:
                self._under_way[request] = lease
                return request
        return None

    def has_pending_requests(self) -> bool:
        """Whether the spider must stay: for what is due, for what soon will be, or because it was told to."""
        if self._exchanging is None:
            return False
        if self._held or self._scheduling.stay or not self._exchanging.is_empty:
            return True
        next_due = self._exchanging.next_due
        if next_due is None:
            return False
        patience = self._scheduling.close_when_waiting
        if patience is None or next_due - self._scheduling.clock() <= patience:
            return True
        if not self._said_waiting:
            self._said_waiting = True
            _logger.info("requests wait until %s; run it again then", self._scheduling.in_words(next_due))
        return False

    async def release(self, *, continued: bool) -> None:
        """Offer requests from now on: without those of the present segment unless its work is continued."""
        current = self._scheduling.segment_of(None)
        if self._exchanging is None:
            return
        try:
            if not continued:
                await self._scheduling.queue.forget(current)
                await self._load_filter(current)
        except QueueError as error:
            self._give_up(error)
            return
        self._held = False
        self._exchanging.start()
        self._take_up_failures()
        if self._hook is not None:
            self._hook.wake()

    async def _open(self, spider: Spider) -> None:
        scheduling, queue = self._scheduling, self._scheduling.queue
        self._writer = RequestWriter(spider, _KINDS)
        self._fingerprint = self._crawler.request_fingerprinter.fingerprint
        self._prepared = getattr(spider, "prepared", None)
        self._again = getattr(spider, "again", None)
        self._held = bool(getattr(spider, "holds_scheduler", False))
        current = scheduling.segment_of(None)
        try:
            await self._open_queue()
            if scheduling.fresh:
                await queue.forget(current)
            await queue.forget_others(scheduling.segments_kept, current)
            await self._load_filter(current)
            self._failures = [one for one in await queue.failures() if one.segment != current]
        except QueueError as error:
            self._give_up(error)
            await queue.close()
            self._crawler.signals.connect(self._not_opened, signals.spider_opened)
            return
        self._exchanging = Exchanging(
            queue,
            ahead=scheduling.ahead,
            lease_seconds=scheduling.lease_seconds,
            clock=scheduling.clock,
            changed=self._exchanged,
            failed=self._give_up,
        )
        connect = self._crawler.signals.connect
        connect(self._spider_opened, signals.spider_opened)
        connect(self._callback_raised, signals.spider_error)
        connect(self._item_raised, signals.item_error)

    async def _open_queue(self) -> None:
        queue, scheduling = self._scheduling.queue, self._scheduling
        try:
            await queue.open(scheduling.clock())
        except QueueError:
            discard = getattr(queue, "discard", None)
            if not scheduling.fresh or discard is None:
                raise
            # The way out of a queue that cannot be read, or that another version wrote.
            await discard()
            await queue.open(scheduling.clock())

    async def _load_filter(self, segment: str) -> None:
        """Make the filter for as many as the last segment had, and a quarter more, and fill it."""
        counts = await self._scheduling.queue.counts(self._scheduling.clock())
        expected = max(self._scheduling.expected, counts.seen * 5 // 4)
        found = SeenFilter(expected, self._scheduling.error_rate)
        await found.load(self._scheduling.queue.fingerprints(segment))
        self._filters[segment] = found

    def _take_up_failures(self) -> None:
        """Offer first what failed in earlier segments. It is then seen in this one, so that a spider which
        makes its requests anew in each segment does not ask twice."""
        failures, self._failures = self._failures, []
        for failure in failures:
            try:
                request = self._writer.read(failure.body, failure.attempts)
            except UnreadableRequestError as error:
                _logger.error("%s", error)
                continue
            self._take_up(failure, request if self._again is None else self._again(request))
            self._count("retried_failures")

    def _take_up(self, failure: port.Failure, request: Request | None) -> None:
        assert self._exchanging is not None
        if request is None:
            self._exchanging.take_up(failure.id, None)
            return
        segment, fingerprint = PUSHED, None
        if failure.segment != PUSHED and not request.dont_filter:
            segment, fingerprint = self._scheduling.segment_of(request), self._fingerprint(request)
        maybe_seen = fingerprint is not None and self._maybe_seen(segment, fingerprint)
        body, priority = self._writer.write(request), max(1, failure.priority)
        self._exchanging.take_up(failure.id, Entry(body, segment, fingerprint, priority, None, maybe_seen))

    def _not_opened(self) -> None:
        """Scrapy takes this from a signal's receiver only: its scraper is not open before."""
        raise CloseSpider("error")

    def _spider_opened(self) -> None:
        """The engine has its parts only now."""
        self._hook = EngineHook(self._crawler.engine, self._completed)
        if self._exchanging is not None and not self._held:
            self._exchanging.start()
            self._take_up_failures()
        if self._scheduling.stay:
            self._stay = asyncio.ensure_future(self._look_for_pushed())

    async def _look_for_pushed(self) -> None:
        while self._exchanging is not None:
            await asyncio.sleep(POLL)
            self._exchanging.look_again()

    async def _close(self) -> None:
        if self._stay is not None:
            self._stay.cancel()
        if self._exchanging is None:
            return
        self.left_nothing = self._exchanging.is_empty and self._exchanging.next_due is None
        try:
            try:
                counts = await self._scheduling.queue.counts(self._scheduling.clock())
            finally:
                await self._exchanging.close()
        except QueueError as error:
            self._give_up(error)
            return
        finally:
            self._exchanging = None
        for name, value in counts.as_plain().items():
            self._crawler.stats.set_value(f"scheduler/{name}", value)

    def _read(self, lease: Lease) -> Request | None:
        assert self._exchanging is not None
        try:
            request: Request | None = self._writer.read(lease.body, lease.attempt)
        except UnreadableRequestError as error:
            _logger.error("%s", error)
            self._count("dropped/unreadable")
            self._exchanging.fail(lease, str(error))
            return None
        if self._prepared is not None:
            request = self._prepared(request, lease.segment)
        if request is None:
            self._count("dropped/outdated")
            self._exchanging.finish(lease)
        return request

    def _completed(self, request: Request) -> None:
        lease = self._under_way.pop(request, None)
        if lease is None or self._exchanging is None:
            return
        reason = request.meta.get(FAILURE)
        if getattr(self._crawler.spider, "ending", None) is not None:
            # What ended the harvest may have kept its result from being recorded.
            self._exchanging.give_back(lease)
        elif reason is None:
            self._exchanging.finish(lease)
        else:
            self._exchanging.fail(lease, reason)

    def _exchanged(self, answer: Exchange) -> None:
        for name, count in (
            ("dropped/seen", answer.duplicates),
            ("filter/false_alarms", answer.false_alarms),
            ("refused", answer.refused),
            ("leased_in_all", len(answer.leases)),
        ):
            if count:
                self._count(name, count)
        if self._hook is not None:
            self._hook.wake()

    def _maybe_seen(self, segment: str, fingerprint: bytes) -> bool:
        found = self._filters.get(segment)
        # Without a filter the queue looks itself: a segment that begins while the spider runs.
        return True if found is None else found.add(fingerprint)

    def _callback_raised(self, failure: Failure, response: Response) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            request.meta.setdefault(FAILURE, f"callback raised {failure.value!r}")

    def _item_raised(self, item: Any, response: Response | None, failure: Failure) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            request.meta.setdefault(FAILURE, f"an item's pipeline raised {failure.value!r}")

    def _give_up(self, error: QueueError) -> None:
        """The queue cannot go on: end the crawl; what was leased is offered again next time."""
        spider: Any = self._crawler.spider
        if hasattr(spider, "give_up"):
            spider.give_up(error)
        else:
            _logger.error("%s", error)
        if self._hook is not None:
            self._closing = asyncio.ensure_future(self._crawler.engine.close_spider_async(reason="error"))

    def _count(self, name: str, count: int = 1) -> None:
        self._crawler.stats.inc_value(f"scheduler/{name}", count)
