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
from tileharvest.scheduler.codec import UnreadableRequestError
from tileharvest.scheduler.completion import EngineHook
from tileharvest.scheduler.conduct import Conduct
from tileharvest.scheduler.entries import Entries
from tileharvest.scheduler.exchanging import Exchanging
from tileharvest.scheduler.fleet import Ending
from tileharvest.scheduler.opening import open_queue
from tileharvest.scheduler.requests import FAILURE, RequestWriter
from tileharvest.scheduler.retrying import requests_of
from tileharvest.scheduler.sharing import HEARTBEAT, Sharing
from tileharvest.scheduler.work import Work
from tileharvest.scheduling import scheduling_for
from tileharvest.watching import look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from tileharvest.maps.budgets import Budget
    from tileharvest.maps.rates import Gap
    from tileharvest.scheduler import port
    from tileharvest.scheduler.gate import Gate
    from tileharvest.scheduler.port import Exchange, Lease
    from tileharvest.scheduling import Scheduling
    from tileharvest.watching import Overview

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
      any more; called whenever one is offered.

    A request goes to the failure list when its callback or its items raise, when it could not be downloaded
    and has no errback, or when `meta["failure"]` says why. `meta["not_before"]`, seconds since 1970, delays
    it; `meta["delay"]`, seconds or from how many to how many, lets it start so long after the one before it
    of this process.
    """

    def __init__(self, crawler: Crawler, scheduling: Scheduling) -> None:
        self._crawler = crawler
        self._scheduling = scheduling
        self._under_way: dict[Request, Lease] = {}
        self._failures: Sequence[port.Failure] = ()
        self._said_waiting = False
        self._stay: asyncio.Task[None] | None = None
        self._exchanging: Exchanging | None = None
        self._sharing: Sharing | None = None
        self._resting: set[asyncio.Task[None]] = set()
        self._share: int | None = None
        self._hook: EngineHook | None = None
        self._waiting: tuple[Request, Lease] | None = None
        """Whose turn has not come."""
        harvesting = getattr(crawler.spider, "harvesting", None)
        self._conduct = Conduct(
            scheduling.queue,
            scheduling.name,
            courtesy=scheduling.courtesy,
            local_time=scheduling.local_time,
            clock=scheduling.clock,
            wake=self._wake,
            stop=self._stop,
            failed=self._give_up,
            traffic=getattr(harvesting, "traffic", None),
            check=getattr(harvesting, "check_room", lambda: None),
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
        """False for what is dropped: too deep, not to be written, or surely seen. Whether any other was seen
        in its segment is known when the queue has looked; a seen one is dropped there, and counted."""
        assert self._exchanging is not None
        entry = self._entries.of(request)
        if entry is None:
            return False
        if self._sharing is not None:
            self._sharing.goes_on()
            if self._sharing.surely_pushed(entry.segment, entry.fingerprint):
                self._count("dropped/seen")
                return False
        self._exchanging.push(entry)
        return True

    def next_request(self) -> Request | None:
        if self._held or not self._conduct.may_offer() or self._has_its_share():
            return None
        waiting, self._waiting = self._waiting or self._leased(), None
        if waiting is None:
            return None
        request, lease = waiting
        if not self._conduct.comes(request):
            self._waiting = waiting
            return None
        self._under_way[request] = lease
        return request

    def _leased(self) -> tuple[Request, Lease] | None:
        if self._exchanging is None:
            return None
        while (lease := self._exchanging.next_lease()) is not None:
            request = self._read(lease)
            if request is not None:
                return request, lease
        return None

    def has_pending_requests(self) -> bool:
        """Whether the spider must stay: for what is due, for what soon will be, or because it was told to."""
        if self._exchanging is None:
            return False
        if self._held or self._waiting or self._scheduling.stay or not self._exchanging.is_empty:
            return True
        if self._sharing is not None and self._sharing.ending is not Ending.GOES_ON:
            return False
        if self._exchanging.others_work or self._exchanging.is_held_back:
            return True
        next_due = self._exchanging.next_due
        if next_due is None:
            return self._sharing is not None and self._sharing.has_joined
        patience = self._scheduling.close_when_waiting
        if patience is None or next_due - self._scheduling.clock() <= patience:
            return True
        if not self._said_waiting:
            self._said_waiting = True
            _logger.info("requests wait until %s; run it again then", self._scheduling.in_words(next_due))
        return False

    async def release(self, harvest: str, *, continued: bool) -> Work | None:
        """Offer requests from now on: without those of the present segment unless its work is continued.

        `harvest` names the work in a way that no other work is ever named. None when the queue cannot go on.
        """
        current, scheduling = self._scheduling.segment_of(None), self._scheduling
        if self._exchanging is None:
            return None
        is_first, pace = True, self._conduct.pace
        try:
            if not continued and scheduling.shared is None:
                await scheduling.queue.forget(current)
                await self._load_filter()
            if pace is not None and scheduling.shared is not None:
                is_first = await scheduling.shared.join(current, harvest, pace)
            elif pace is not None:
                await scheduling.queue.set_pace(pace)
        except QueueError as error:
            self._give_up(error)
            return None
        if pace is not None:
            self._conduct.offers(self._exchanging, pace)
        self._held = False
        self._start(is_first=is_first, has_joined=pace is not None)
        self._wake()
        return Work(
            self._exchanging,
            current,
            writer=self._writer,
            is_first=is_first,
            shared=scheduling.shared,
            sharing=self._sharing,
        )

    @property
    def gate(self) -> Gate:
        """Whether requests may start; any part of the crawl may hold it shut for a reason of its own."""
        return self._conduct.gate

    async def may_go_on(self) -> None:
        """Returns when nothing holds requests back. Raises CancelledError when the crawl is about to end."""
        await self._conduct.may_go_on()

    async def allow(self, budget: Budget) -> None:
        """Let the crawl spend no more than this. Raises QueueError."""
        await self._conduct.allow(budget)

    def obey(self, crawl_gap: Gap) -> None:
        """Keep what the site's robots.txt asks for besides, from `release` on."""
        self._conduct.obey(crawl_gap)

    async def aside(self) -> None:
        """Returns when a request may be made that is not offered here. Raises BudgetError and QueueError, and
        CancelledError when the crawl is about to end."""
        await self._conduct.aside()

    async def received_aside(self, received_bytes: int) -> None:
        """Count the answer to such a request. Raises BudgetError, QueueError."""
        await self._conduct.received_aside(received_bytes)

    async def claim_probe(self, host: str, seconds: float) -> bool:
        """Whether this crawl, and for so many seconds no other one, may find out whether a host is back."""
        try:
            claimed = await self._scheduling.queue.claim_probe(host, seconds)
            return claimed and await self._conduct.may_probe()
        except QueueError as error:
            self._give_up(error)
            return False

    async def overview(self) -> Overview | None:
        """What is known of the queue; None while it is not open. Reads all that waits."""
        if self._exchanging is None:
            return None
        return await look(self._scheduling.queue, self._scheduling.clock())

    def rest(self, host: str, seconds: float) -> None:
        """Let nobody else ask the host either for so long."""
        if self._exchanging is not None:
            task = asyncio.ensure_future(self._rest(host, seconds))
            self._resting.add(task)
            task.add_done_callback(self._resting.discard)

    async def _rest(self, host: str, seconds: float) -> None:
        try:
            await self._scheduling.queue.rest(host, seconds)
        except QueueError as error:
            self._give_up(error)

    async def _open(self, spider: Spider) -> None:
        scheduling, queue = self._scheduling, self._scheduling.queue
        self._writer = RequestWriter(spider, _KINDS)
        self._entries = Entries(
            self._writer,
            fingerprint=self._crawler.request_fingerprinter.fingerprint,
            segment_of=scheduling.segment_of,
            max_depth=scheduling.max_depth,
            count=self._count,
        )
        self._prepared = getattr(spider, "prepared", None)
        self._again = getattr(spider, "again", None)
        self._held = bool(getattr(spider, "holds_scheduler", False))
        try:
            self._failures = await open_queue(scheduling)
            await self._load_filter()
            await self._conduct.begin()
        except TileHarvestError as error:
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
            linger=scheduling.linger,
            heartbeat=None if scheduling.shared is None else min(HEARTBEAT, scheduling.lease_seconds / 3),
            in_flight=self._in_flight,
        )
        connect = self._crawler.signals.connect
        connect(self._spider_opened, signals.spider_opened)
        connect(self._callback_raised, signals.spider_error)
        connect(self._item_raised, signals.item_error)

    async def _load_filter(self) -> None:
        """For as many as the last segment had, and a quarter more."""
        scheduling = self._scheduling
        # What others push no filter of this worker can know.
        if scheduling.shared is None:
            counts = await scheduling.queue.counts(scheduling.clock())
            expected = max(scheduling.expected, counts.seen * 5 // 4)
            current = scheduling.segment_of(None)
            await self._entries.load_filter(scheduling.queue, current, expected, scheduling.error_rate)

    def _start(self, *, is_first: bool, has_joined: bool = False) -> None:
        """Of several workers only the first offers again what failed in earlier segments."""
        assert self._exchanging is not None
        if self._scheduling.shared is not None:
            self._sharing = Sharing(
                self._scheduling.shared,
                self._exchanging,
                self._scheduling.segment_of(None),
                has_joined=has_joined,
                wake=self._wake,
                failed=self._give_up,
            )
            self._sharing.start()
        self._exchanging.start()
        failures, self._failures = self._failures, ()
        if not is_first:
            return
        for failure, request, is_counted in requests_of(failures, self._writer, self._again):
            entry = request and self._entries.of_failure(failure, request, is_counted=is_counted)
            self._exchanging.take_up(failure.id, entry)
            self._count("retried_failures")

    def _not_opened(self) -> None:
        """Scrapy takes this from a signal's receiver only: its scraper is not open before."""
        raise CloseSpider("error")

    def _spider_opened(self) -> None:
        """The engine has its parts only now."""
        self._hook = EngineHook(self._crawler.engine, self._completed)
        if self._exchanging is not None and not self._held:
            self._start(is_first=True)
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
        if self._waiting is not None:
            self._exchanging.give_back(self._waiting[1])
        self.left_nothing = self._exchanging.is_done
        try:
            if self._sharing is not None:
                await self._sharing.stop()
            await self._conduct.end()
            if self._resting:
                await asyncio.wait(self._resting)
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
        self._conduct.over(request)
        reason = request.meta.get(FAILURE)
        ending = getattr(self._crawler.spider, "ending", None)
        if ending is not None and not getattr(ending, "is_all_kept", False):
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
        self._share = self._share if answer.share is None else answer.share
        if self._sharing is not None:
            self._sharing.exchanged()
        if self._exchanging is not None and self._exchanging.is_empty and not self._under_way:
            self._conduct.idles()
        self._wake()

    def _wake(self) -> None:
        if self._hook is not None:
            self._hook.wake()

    def _in_flight(self) -> int:
        return 0 if self._hook is None else self._hook.in_flight

    def _has_its_share(self) -> bool:
        """Whether the other workers leave this one no further request on the way."""
        return self._share is not None and self._in_flight() >= self._share

    def _callback_raised(self, failure: Failure, response: Response) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            request.meta.setdefault(FAILURE, f"callback raised {failure.value!r}")

    def _item_raised(self, item: Any, response: Response | None, failure: Failure) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            request.meta.setdefault(FAILURE, f"an item's pipeline raised {failure.value!r}")

    def _give_up(self, error: TileHarvestError) -> None:
        """The queue cannot go on: end the crawl; what was leased is offered again next time."""
        spider: Any = self._crawler.spider
        if hasattr(spider, "give_up"):
            spider.give_up(error)
        else:
            _logger.error("%s", error)
        self._end("error")

    def _stop(self, error: BudgetError | None) -> None:
        """Nothing further starts: a budget is spent, or a person has said so."""
        if error is None:
            self._end("stopped")
        elif self._crawler.spider.give_up(error):  # type: ignore[union-attr]
            self._end("budget")

    def _end(self, reason: str) -> None:
        self._conduct.cut_short()
        if self._hook is not None:
            self._closing = asyncio.ensure_future(self._crawler.engine.close_spider_async(reason=reason))

    def _count(self, name: str, count: int = 1) -> None:
        self._crawler.stats.inc_value(f"scheduler/{name}", count)
