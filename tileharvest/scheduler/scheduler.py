"""The scheduler that Scrapy is given: requests become entries of a queue, and leases become requests."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import count
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import CloseSpider
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import load_object

from tileharvest.errors import ConfigurationError, QueueError, TileHarvestError, counted
from tileharvest.maps.settings import setting, switch
from tileharvest.queue.codec import NOT_BEFORE, CodecError
from tileharvest.queue.controls import Controls
from tileharvest.queue.port import Counts, End, Entry, Exchanged, Failure
from tileharvest.scheduler.crawl import as_error, crawl_of
from tileharvest.scheduler.leases import LEASE, Handed, LeaseMiddleware
from tileharvest.scheduler.request_writer import RequestWriter
from tileharvest.scheduler.settings import open_queue, own_arguments, queue_for, without_effect

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from tileharvest.queue.port import Lease

_logger = logging.getLogger(__name__)

LOOK: Final = 1.0
"""Seconds between two looks for a person's orders, and for what others have pushed or lost."""

_SOON: Final = 0.02
"""The least seconds between two exchanges if nothing has changed."""

_ENOUGH: Final = 16
"""Requests at the same time if Scrapy's CONCURRENT_REQUESTS sets no limit."""


class Scheduler(BaseScheduler):
    """Offers each request once per segment, by priority, and forgets none.

    It serves any spider of any project, in the order of `RequestQueue`. A request goes to the failure list if
    its callback or its items raise, or if it could not be downloaded and has no errback.

    Requests and the ends of leases are gathered during one turn of the event loop, and one task tells them to
    the queue, in their order.
    """

    def __init__(self, crawler: Crawler, middleware: LeaseMiddleware) -> None:
        settings, spider = crawler.settings, crawler.spider
        assert spider is not None
        self._crawler = crawler
        self.queue, self.segment = queue_for(crawler)
        """The queue, and the segment of all requests."""
        self._crawl = crawl_of(crawler)
        self.middleware = middleware
        self._ahead = (settings.getint("CONCURRENT_REQUESTS") or _ENOUGH) // 2
        """The most requests that are leased before the engine asks for them. So the engine need not wait for
        each one, and what is urgent waits for a few others at most."""
        self._filters = load_object(settings["DUPEFILTER_CLASS"]) is not BaseDupeFilter
        self._is_tool = self._crawl.is_tool
        """Whether one of Scrapy's tools asks, which a crawl that is being stopped looks like. Its requests
        wait in memory, because the shell gives them their callback only after it has enqueued them."""
        self._longest = float(setting(settings, "CLOSE_WHEN_WAITING"))
        """Seconds for which the spider stays if all of its requests are due later."""
        self._stays = switch(own_arguments(spider), "stay", "a spider that waits for requests")
        self._writer = RequestWriter(spider)
        self._memory: list[tuple[float, int, int, Request]] = []
        """The requests that JSON cannot hold, which are lost when the process ends. A heap: the time from
        which it is offered, or 0; the negative priority; a number; the request."""
        self._seen: set[bytes] = set()
        """The fingerprints of requests that only this process remembers."""
        self.is_open = False
        """Whether the queue is told what comes, and asked for leases."""
        self._pushed: list[tuple[Entry, Request]] = []
        self._ended: list[End] = []
        """The entries, with their requests, and then the ends of leases that the queue is to be told."""
        self._exchanging: asyncio.Task[bool] | None = None
        self._has_changed = asyncio.Event()
        """Set while the queue is to be told or asked something."""
        self._has_exchanged = asyncio.Event()
        """Set for a moment after each exchange, and from the last one on."""
        self._ready: list[tuple[int, int, Lease, Request]] = []
        """What was leased ahead: the negative priority, a number, the lease, the request."""
        self._numbers = count()
        self._answer = Exchanged(has_more=True)
        """What the queue answered last."""
        self._is_hungry = False
        """Whether the engine has asked in vain since it was last woken."""
        self.controls = Controls()
        """What a person has ordered, as of the last look."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not is_asyncio_available():
            raise ConfigurationError(
                "TileHarvest's scheduler needs the asyncio reactor: write TWISTED_REACTOR ="
                " 'twisted.internet.asyncioreactor.AsyncioSelectorReactor', or take the setting out"
            )
        middleware = crawler.get_spider_middleware(LeaseMiddleware)
        if middleware is None:
            raise ConfigurationError(
                "TileHarvest's scheduler needs its spider middleware: write ADDONS ="
                " {'tileharvest.TileHarvest': 300}, or SPIDER_MIDDLEWARES ="
                " {'tileharvest.scheduler.LeaseMiddleware': 10}"
            )
        scheduler = middleware.scheduler = cls(crawler, middleware)
        return scheduler

    # What Scrapy calls

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open())

    def close(self, reason: str) -> Deferred[None]:
        self.is_open = False  # Nothing more is asked for. What is left to tell is told last.
        return deferred_from_coro(self._close())

    def enqueue_request(self, request: Request) -> bool:
        """Lets a request wait. Returns False if it is dropped at once.

        The queue drops a request that its segment has seen. That is known only after this returns; the signal
        `request_dropped` is sent then.
        """
        if self._ready and request is self._ready[0][-1]:
            # It was enqueued before. This only wakes the engine.
            return True
        origin = self.middleware.handed_as(request)
        if origin is not None and not origin.is_at_spider:
            # A downloader middleware has put this in its place. The queue is told of both at once.
            origin.is_consumed = True
            self.through(origin)
        if isinstance(request.errback, Handed):
            request.errback = request.errback.errback
        due = request.meta.get(NOT_BEFORE)
        if due is not None and (type(due) not in (int, float) or not isfinite(due)):
            mistake = "%s was not queued: meta['%s'] %r is not a time: give seconds since 1970"
            _logger.error(mistake, request, NOT_BEFORE, due)
            return self._drop("mistaken")
        fingerprint = self._fingerprint(request) if self._filters else None
        try:
            body = None if self._is_tool else self._writer.write(request)
        except CodecError as error:
            body = None
            self._say_in_memory(request, error)
        # Only the process remembers a POST, as with Scrapy's scheduler: a later run must be able to log in.
        if fingerprint is not None and (body is None or request.method == "POST"):
            if fingerprint in self._seen:
                return self._drop("seen")
            self._seen.add(fingerprint)
            fingerprint = None
        if body is None:
            request.meta.pop(NOT_BEFORE, None)
            # It may have been made of a leased one.
            request.meta.pop(LEASE, None)
            heappush(self._memory, (due or 0.0, -request.priority, next(self._numbers), request))
            for name in ("in_memory", "enqueued"):
                self._crawler.stats.inc_value(f"scheduler/{name}")
            return True
        slot = self._crawler.engine.downloader.get_slot_key(request)
        entry = Entry(body, self.segment, fingerprint, request.priority, due, slot)
        self._pushed.append((entry, request))
        self._has_changed.set()
        return True

    def next_request(self) -> Request | None:
        """Returns the request that starts now, or None while none may start."""
        request = None
        if not self._is_held:
            if self._memory and self._memory[0][0] <= time.time():
                # No other worker gets any of these.
                request = heappop(self._memory)[3]
            elif self._ready:
                _, _, lease, request = heappop(self._ready)
                request.meta[LEASE] = {"id": lease.id, "attempt": lease.attempt}
                request.errback = handed = Handed(self, lease, request.errback)
                self.middleware.handed[lease.id, lease.attempt] = handed
                if len(self._ready) <= self._ahead // 2:
                    self._has_changed.set()
        if request is not None:
            self._crawler.stats.inc_value("scheduler/dequeued")
        elif not self._is_hungry:
            self._is_hungry = True
            if self._has_more:
                self._has_changed.set()
        return request

    def has_pending_requests(self) -> bool:
        """Returns whether the spider must stay. What the engine has does not count."""
        if not self._is_at_work:
            return False
        is_any_here = self._ready or self._pushed or self._memory
        is_any = is_any_here or self._has_more or self._answer.elsewhere or self._stays
        due = self._answer.next_due
        return bool(is_any) or (due is not None and due - time.time() <= self._longest)

    @property
    def _has_more(self) -> bool:
        """Whether the queue may have anything to lease."""
        return self._answer.has_more or self._has_changed.is_set()

    # The ends of leases

    def through(self, handed: Handed, reason: str = "") -> None:
        """Ends the lease of a request of which a part is through, or has failed for a reason, if no other
        part is left. What was enqueued before becomes durable before, or together with this. While others are
        ready, the queue is told with the next exchange, which comes within a second."""
        lease = handed.lease
        handed.reason = handed.reason or reason
        is_through = handed.is_consumed and not handed.items
        if not is_through or self.middleware.handed.pop((lease.id, lease.attempt), None) is None:
            return
        # Results that may not be kept are asked again in a later run.
        how: Any = "fail" if handed.reason else "finish" if self._crawl.is_all_kept else "release"
        self._ended.append(End(lease.id, lease.attempt, how, handed.reason))
        if not self._ready:
            self._has_changed.set()

    # What spiders, extensions and commands ask

    @property
    def is_busy(self) -> bool:
        """Whether the engine has any request of the queue, or gets one as soon as it has room."""
        is_any_ready = not self._is_throttled and (self._ready or self._has_more)
        return bool(self.middleware.handed or is_any_ready)

    async def told(self) -> None:
        """Returns when the queue has taken all that was meant for it, or when the crawl ends."""
        await self._until(lambda: not self._has_changed.is_set())

    async def counts(self) -> Counts:
        """Returns how many requests are where. Raises QueueError."""
        await self.told()
        return await self.queue.counts(self.segment)

    def request_of(self, failure: Failure) -> Request | None:
        """Returns the request that has failed, or None if it cannot be read."""
        with suppress(CodecError):
            return self._writer.read(failure.body)
        return None

    async def until_nothing_waits(self) -> None:
        """Returns when the queue and the engine know of nothing to come, or when the crawl ends."""

        def nothing_waits() -> bool:
            # A middleware may have dropped what was handed out, of which the engine tells nobody. Then
            # nothing is being downloaded, and the request has not come to the spider.
            is_downloading = bool(self._crawler.engine.downloader.active)
            is_any_here = any(is_downloading or one.is_at_spider for one in self.middleware.handed.values())
            return not (is_any_here or self.has_pending_requests())

        await self._until(nothing_waits)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        self._has_changed.set()
        while self._is_at_work and not is_so():
            await self._has_exchanged.wait()

    # The beginning and the end

    async def _open(self) -> None:
        connect = self._crawler.signals.connect
        connect(self._idle, signals.spider_idle)
        connect(self._closed, signals.spider_closed)
        if named := without_effect(self._crawler.settings):
            _logger.info("no effect under this scheduler, which has its own queue: %s", ", ".join(named))
        try:
            controls = await open_queue(self.queue, self.segment, self._crawler)
            # An order to stop from before is not meant for this crawl.
            self.controls = Controls(stop=controls.stop)
            self._hear(controls)
            if self._crawl.harvest is None:
                # A spider that makes the same requests in each segment asks only once: they are seen then.
                ids = [one.id for one in await self.queue.failures() if one.segment != self.segment]
                retried = await self.queue.take_up(ids, self.segment)
                self._crawler.stats.inc_value("scheduler/retried_failures", retried)
        except TileHarvestError as error:
            self._crawl.end(error)
            await self.queue.close()
        else:
            self.is_open = True
            self._has_changed.set()
            self._exchanging = asyncio.ensure_future(self._exchange())

    def _idle(self) -> None:
        """Ends a crawl that was refused, and one that has ended, with its own reason."""
        if self._crawl.is_ending:
            raise CloseSpider(self._crawl.close_reason)

    def _closed(self) -> None:
        if self._crawl.ending is not None and self._crawl.harvest is None:
            # By this Scrapy's own `crawl` knows that it is to end with a status that is not 0.
            self._crawler.spider = None

    async def _close(self) -> None:
        self._has_changed.set()
        is_queue_sound = self._exchanging is not None and await self._exchanging
        if lost := len(self._memory):
            words = "what waited in memory was not made, and is not kept: %s"
            _logger.warning(words, counted(lost, "request"))
        if (due := self._answer.next_due) is not None and not self._crawl.is_ending:
            zone = UTC if (harvest := self._crawl.harvest) is None else harvest.description.zone_info
            until = f"{datetime.fromtimestamp(due, zone):%Y-%m-%d %H:%M:%S %Z}"
            _logger.info("requests wait until %s; run it again then", until)
        try:
            if is_queue_sound:
                counts = await self.queue.counts(self.segment)
                for name, value in counts.as_plain().items():
                    self._crawler.stats.set_value(f"scheduler/{name}", value)
        except QueueError as error:
            self._crawl.end(error)
        finally:
            await self.queue.close()

    # From requests to entries

    def _say_in_memory(self, request: Request, why: CodecError) -> None:
        if not self._crawler.stats.get_value("scheduler/in_memory"):
            words = (
                "%s waits in memory, because JSON cannot hold it: %s. It is lost with the process."
                " scheduler/in_memory counts others, of which nothing more is said"
            )
            _logger.warning(words, request, why)

    def _fingerprint(self, request: Request) -> bytes | None:
        """Returns the fingerprint by which a request is filtered, or None for one that is never dropped.

        Scrapy does not filter the requests that it makes of `start_urls`; here a segment has each of them
        once. A repeat or a redirect of one is not meant.
        """
        is_start = "is_start_request" in request.meta and LEASE not in request.meta
        if request.dont_filter and not (is_start and self._crawler.spidercls.start is Spider.start):
            return None
        found: bytes = self._crawler.request_fingerprinter.fingerprint(request)
        return found

    def _drop(self, why: str) -> bool:
        self._crawler.stats.inc_value(f"scheduler/dropped/{why}")
        if why == "seen":
            self._crawler.stats.inc_value("dupefilter/filtered")
        return False

    # From leases to requests

    @property
    def _is_held(self) -> bool:
        """Whether nothing may start: the spider has not begun or is ending, a person has paused the crawl,
        or the throttle of a map holds."""
        is_at_work = self._is_at_work and self._crawl.beginning is None
        return not is_at_work or self.controls.paused is not None or self._is_throttled

    @property
    def _is_at_work(self) -> bool:
        return self.is_open and not self._crawl.is_ending

    @property
    def _is_throttled(self) -> bool:
        throttle = self._crawl.throttle
        return throttle is not None and throttle.held is not None

    # The exchange with the queue

    async def _exchange(self) -> bool:
        """Exchanges with the queue until the scheduler is closed. Returns False if the queue has failed. Then
        it is told nothing more, or a parent could be finished there without its children. What it did not
        take comes again, as after a kill."""
        looked = time.monotonic()
        try:
            while await self._is_due():
                is_asked = self.controls.paused is None and not self._crawl.is_ending
                wanted = max(self._ahead - len(self._ready), int(self._is_hungry and not self._ready))
                await self._tell(wanted if is_asked else 0)
                if time.monotonic() - looked >= LOOK:
                    looked = time.monotonic()
                    await self._look()
                self._has_exchanged.set()
                self._has_exchanged.clear()
                self._wake()
            self._ended += [End(lease.id, lease.attempt, "release") for _, _, lease, _ in self._ready]
            # Scrapy has ended these requests in a way that it tells nobody of.
            for handed in list(self.middleware.handed.values()):
                handed.is_consumed, handed.items = True, 0
                self.through(handed)
            await self._tell(0)
        except Exception as error:  # noqa: BLE001 - a mistake of ours must end the crawl, not hang it
            self._crawl.end(as_error(error))
            return False
        finally:
            self.is_open = False
            self._has_exchanged.set()
        return True

    async def _is_due(self) -> bool:
        """Returns when something has changed, when a delayed request is due, or after a second, as others may
        have pushed something. Returns False if the scheduler is closed."""
        pause = LOOK
        if self._answer.next_due is not None:
            # The clock of a shared queue may be behind ours.
            pause = min(LOOK, max(_SOON, self._answer.next_due - time.time()))
        if not self._has_changed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._has_changed.wait()
        # What the engine does in this turn of the event loop goes along.
        await asyncio.sleep(0)
        return self.is_open

    async def _tell(self, wanted: int) -> None:
        """Tells the queue all that is meant for it, and takes in what it answers, with so many leases at
        most."""
        self._has_changed.clear()
        pushed, ended, self._ended = self._pushed.copy(), self._ended, []
        entries = [entry for entry, _ in pushed]
        held = [handed.lease for handed in self.middleware.handed.values()]
        held += [lease for _, _, lease, _ in self._ready]
        self._answer = await self.queue.exchange(entries, ended, wanted, held, time.time())
        # Until now the spider had to stay for them.
        del self._pushed[: len(pushed)]
        self._crawler.stats.inc_value("scheduler/enqueued", len(pushed) - len(self._answer.duplicates))
        for place in self._answer.duplicates:
            self._drop("seen")
            self._crawler.signals.send_catch_log(
                signals.request_dropped, request=pushed[place][1], spider=self._crawler.spider
            )
        for lease in self._answer.leases:
            try:
                request = self._writer.read(lease.body)
            except CodecError as error:
                _logger.error("%s; the page is asked anew when the spider comes to it again", error)
                self._drop("unreadable")
                self._ended.append(End(lease.id, lease.attempt, "unsee", str(error)))
                continue
            heappush(self._ready, (-lease.priority, next(self._numbers), lease, request))

    def _wake(self) -> None:
        """Lets the engine ask for what is ready.

        Scrapy has no call for that. So the engine gets a ready request as if it was new, gives it to
        `enqueue_request`, and asks for requests then."""
        if self._ready and self._is_hungry and not self._is_held:
            self._is_hungry = False
            self._crawler.engine.crawl(self._ready[0][-1])

    async def _look(self) -> None:
        """Looks for a person's orders, and whether the crawl gets on."""
        try:
            self._hear(Controls.read(await self.queue.notes()))
            self._crawl.say_wait()
            if self._crawl.harvest is not None:
                self._crawl.harvest.check_room()
        except TileHarvestError as error:
            self._crawl.end(error)

    def _hear(self, controls: Controls) -> None:
        before, self.controls = self.controls, controls
        if self._crawl.throttle is not None:
            self._crawl.throttle.is_paused = controls.paused is not None
        # The spiders of `add` and `plan` have no name, so that Scrapy does not list them.
        harvest, spider_name = self._crawl.harvest, getattr(self._crawler.spidercls, "name", "")
        kind, name = ("spider", spider_name) if harvest is None else ("map", harvest.description.name)
        if controls.stop != before.stop:
            _logger.info("a person has stopped %s '%s'", kind, name)
            self._crawl.end("stopped")
        controls.say_news(before, f"{kind} '{name}'", name)


def scheduler_of(crawler: Crawler) -> Scheduler | None:
    """Returns the scheduler of a crawler whose spider is open, or None if it is Scrapy's or another one."""
    middleware = crawler.get_spider_middleware(LeaseMiddleware)
    return None if middleware is None else middleware.scheduler
