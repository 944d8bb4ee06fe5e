"""The scheduler that Scrapy is given: requests become entries of a queue, and leases become requests."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Self

from scrapy import Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.defer import deferred_from_coro

from tileharvest.errors import QueueError, TileHarvestError, counted
from tileharvest.monitoring.overview import look
from tileharvest.queue.codec import CodecError, decode, encode_own
from tileharvest.queue.port import Entry
from tileharvest.queue.requests import FAILURE, NOT_BEFORE, PUSHED, is_offered, state_of
from tileharvest.scheduler.blocks import Block, QueuedTile
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.engine import EngineHook, is_closing
from tileharvest.scheduler.failures import not_downloaded, note_failures
from tileharvest.scheduler.fingerprint import SegmentFingerprinter
from tileharvest.scheduler.fleet import Fleet, refuse_company
from tileharvest.scheduler.memory import RequestMemory
from tileharvest.scheduler.politeness import Politeness
from tileharvest.scheduler.request_writer import RequestWriter, mistake_in
from tileharvest.scheduler.settings import scheduling_for, start_urls_of
from tileharvest.scheduler.spider import as_held
from tileharvest.scheduler.worker import QueueWorker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred

    from tileharvest.monitoring.overview import Overview
    from tileharvest.queue.codec import QueuedRequest
    from tileharvest.queue.port import Counts, Exchange, Failure, Lease
    from tileharvest.scheduler.blocks import ShortWay
    from tileharvest.scheduler.settings import Scheduling

_logger = logging.getLogger(__name__)


class Scheduler(BaseScheduler):
    """Offers each request once per segment, in the order of the lanes, and forgets none.

    It serves any spider of the project. A `HeldSpider` may decide when requests are offered, and how each of
    them is made.

    A request goes to the failure list if its callback or its items raise, if it could not be downloaded and
    has no errback, or if `meta["failure"]` holds a reason. `meta["not_before"]`, in seconds since 1970,
    delays it. `meta["delay"]` is the pause after the start of the request before it, of this process:
    seconds, or the least and the most of them.
    """

    def __init__(self, crawler: Crawler, scheduling: Scheduling) -> None:
        spider = crawler.spider
        assert spider is not None
        self._crawler = crawler
        self._scheduling = scheduling
        self._crawl = crawl_of(crawler)
        self._engine = EngineHook(self._completed)
        self._spider = as_held(spider)
        self._has_usual_start = type(spider).start is Spider.start
        fingerprinter = crawler.request_fingerprinter
        self._fingerprint = fingerprinter.fingerprint
        self._tile_fingerprint = (
            fingerprinter.fingerprint_of if isinstance(fingerprinter, SegmentFingerprinter) else None
        )
        """The function that returns the fingerprint of a method and an address. None under a fingerprinter of
        the project's own, which must see each request."""
        self._writer = RequestWriter(spider)
        self._politeness = self._crawl.politeness = Politeness(
            scheduling.queue,
            scheduling.name,
            self,
            rules=self._crawl.rules,
            local_time=scheduling.local_time,
        )
        self.worker = QueueWorker(
            scheduling.queue,
            self,
            ahead=scheduling.ahead,
            lease_seconds=scheduling.lease_seconds,
            clock=scheduling.clock,
            linger=scheduling.linger,
        )
        self._start_urls = start_urls_of(spider, scheduling.lease_seconds)
        self._is_open = False
        self._fleet: Fleet | None = None
        """Keeps this worker in company with others. None before requests are offered, and after."""
        note_failures(crawler)
        self._failed_before: Sequence[Failure] = ()
        """The failures of earlier segments that are not yet offered again."""
        self._memory = RequestMemory()
        self._begun: str | None = None
        """The segment whose work this run has begun, so that its requests were made for the site as it is
        now. None if another run has begun it."""
        self._way: ShortWay | None = None
        """Asks for queued tiles in blocks. None if every tile is an ordinary request."""
        self._under_way: dict[Request, Lease | None] = {}
        """The requests that have started and not ended, each with its lease. The lease is None for a request
        that waited in memory."""
        self._waiting: tuple[Request, Lease | None] | None = None
        """The next request that is no tile of a block, with its lease. It was taken from the queue, and has
        not started."""
        self._left: deque[Request] = deque()
        """The requests of tiles that have started in a block and that the short way has not kept. They were
        counted when they started, and most of them carry the answer that was given."""
        self._share: int | None = None
        """The most requests that this worker may have on the way beside the others. None: as many as the
        map's concurrency allows."""
        self._next_start: asyncio.Future[None] | None = None
        """Wakes the block that waits for the next start. None if no block waits."""
        self.left_nothing = False
        """Whether nothing waited any more, for now or for later, when the scheduler was closed."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, scheduling_for(crawler))

    # What Scrapy calls

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open())

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    def enqueue_request(self, request: Request) -> bool:
        """Lets a request wait. Returns False if it is dropped at once: for a mistake in its meta, or as a
        POST that this process has enqueued before.

        The queue drops, and counts, a request that was seen in its segment before. That is known only after
        this returns. A request that cannot be written waits in memory.
        """
        if self._fleet is not None:
            # Something is pushed, so it is not the end yet.
            self._fleet.ending = "goes on"
        if request.method == "POST" and self._is_repeated_post(request):
            self._count("dropped/seen")
            return False
        if request.errback is not_downloaded:
            request.errback = None
        if (mistake := mistake_in(request)) is not None:
            _logger.error("%s was not queued: %s", request, mistake)
            self._count("dropped/mistaken")
            return False
        if self._scheduling.is_tool:
            return self._keep_in_memory(request, None)
        try:
            body = self._writer.write(request)
        except CodecError as error:
            return self._keep_in_memory(request, error)
        segment = self._scheduling.segment_of(request)
        fingerprint, due = self._filtered_by(request), request.meta.get(NOT_BEFORE)
        self.worker.push(Entry(body, segment, fingerprint, request.priority, due))
        return True

    def next_request(self) -> Request | None:
        """Returns the request that starts now, or None while none may start. What a block has left comes
        first, whatever holds requests back: it has started already."""
        if self._left:
            return self._left.popleft()
        if self._fleet is None or self._politeness.reasons:
            return None
        if self._share is not None and len(self._engine.on_the_way) >= self._share:
            return None
        if tiles := self._start_tiles(1):
            assert self._way is not None
            return Block(tiles[0], self._way)
        if (request := self._start_waiting()) is not None:
            return request
        harvest = self._crawl.harvest
        if harvest is not None and not self._engine.on_the_way and self.worker.starts_nothing:
            harvest.hurry()
        return None

    def entries_of(self, tiles: Iterable[QueuedRequest]) -> list[Entry]:
        """Returns what lets tiles wait that are of the present segment and hold nothing but what this program
        has made. Raises ValueError if an address has no canonical form."""
        segment, filters = self._scheduling.segment_of(), self._scheduling.filters
        assert self._tile_fingerprint is not None
        return [
            Entry(
                encode_own(queued),
                segment,
                self._tile_fingerprint(queued.method, queued.url)
                if filters and not queued.dont_filter
                else None,
                queued.priority,
            )
            for queued in tiles
        ]

    def enqueue_entries(self, entries: Sequence[Entry]) -> None:
        """Enqueues what `entries_of` has made."""
        if self._fleet is not None:
            self._fleet.ending = "goes on"
        self.worker.push(*entries)

    def has_pending_requests(self) -> bool:
        """Returns whether the spider must stay."""
        if not self._is_open:
            return False
        is_here = bool(self._waiting or self._left or self._memory.waiting)
        return self._fleet is None or is_here or self._fleet.stays()

    # The beginning and the end

    async def _open(self) -> None:
        if self._crawler.settings["JOBDIR"]:
            _logger.info("JOBDIR is not used for requests: this scheduler keeps them in its own queue")
        try:
            await self._open_queue()
        except TileHarvestError as error:
            self._crawl.end(error)
            await self._politeness.end()
            await self._scheduling.queue.close()
        else:
            self._is_open = True
        connect = self._crawler.signals.connect
        connect(self._spider_opened, signals.spider_opened)
        if self._crawl.harvest is None:
            # The spider of a harvest looks itself for what it lacks.
            connect(self._idle, signals.spider_idle)

    async def _open_queue(self) -> None:
        """Makes the crawl a worker of its queue, and hears what a person has told the map.

        Raises QueueError, also if this worker must not work beside the present ones, and ConfigurationError
        for settings with which no queue can be reached.
        """
        scheduling, queue, current = self._scheduling, self._scheduling.queue, self._scheduling.segment_of()
        if self._start_urls is not None or (scheduling.shared is not None and self._crawl.harvest is None):
            from tileharvest.queue.redis.start_urls import refuse_pickled  # noqa: PLC0415 - most need no Redis

            await refuse_pickled(self._crawler.settings, scheduling.name)
        try:
            await queue.open(scheduling.clock())
        except QueueError:
            if not scheduling.fresh:
                raise
            # `fresh=1` is what a person is told to write if a queue cannot be read.
            await queue.discard()
            await queue.open(scheduling.clock())
        workers = await queue.workers() or ()
        if workers:
            # This comes before the worker tells the others anything, and before the history hears of this
            # harvest: a harvest of a new segment ends that of another one.
            refuse_company(
                workers,
                current,
                is_fresh=scheduling.fresh,
                is_history_local=scheduling.is_history_local,
            )
        # From now on a person can stop the crawl. An order to stop from before is not meant for it.
        await self._politeness.begin()
        harvest = self._crawl.harvest
        # Other workers go on by the limits that they have, so nothing is forgotten beside them.
        is_widened = harvest is not None and harvest.is_widened(await queue.notes(current))
        if scheduling.fresh or (is_widened and len(workers) <= 1):
            await queue.forget(current)
        await queue.forget_others(scheduling.segments_kept, current)
        self._failed_before = [failure for failure in await queue.failures() if failure.segment != current]

    def _spider_opened(self) -> None:
        """Attaches to the engine, whose slot is new, and starts unless the spider holds requests back."""
        if self._crawl.is_ending:
            return
        self._engine.attach(self._crawler.engine)
        if self._is_open and not self._spider.holds_scheduler:
            self._politeness.offers(self.worker, self._politeness.pace)
            self._start()

    async def release(self, harvest: str, *, continued: bool) -> Fleet | None:
        """Offers requests from now on. Those of the present segment that have waited are forgotten, unless
        its work is `continued`.

        `harvest` is a name that no other harvest ever has. Returns None if the queue cannot go on, or if the
        crawl is about to end.
        """
        if not self._is_open:
            return None
        try:
            return await self._join(harvest, continued=continued)
        except (QueueError, RuntimeError) as error:
            # The crawl may have ended meanwhile, and closed the queue.
            if self._politeness.is_over:
                return None
            if not isinstance(error, QueueError):
                raise
            self._crawl.end(error)
            return None

    def shorten(self, way: ShortWay) -> None:
        """Lets tiles go in blocks, unless BLOCK_SIZE or Scrapy's own pauses between requests forbid it."""
        if self.block_size > 1 and self._tile_fingerprint is not None:
            self._way = way

    @property
    def block_size(self) -> int:
        """The most tiles of a block."""
        return self._scheduling.block_size

    def ask_spider(self) -> None:
        """Lets the spider see each request that waits before it is sent, as it does those of earlier runs."""
        self._begun = None

    async def _join(self, harvest: str, *, continued: bool) -> Fleet | None:
        queue, shared, pace = self._scheduling.queue, self._scheduling.shared, self._politeness.pace
        is_first, segment = True, self._scheduling.segment_of()
        self._begun = None if continued else segment
        if not continued and shared is None:
            await queue.forget(segment)
        # A harvest makes no request of an earlier one: each would take a turn only to be dropped.
        await queue.forget_others(1, segment)
        if pace is not None:
            await queue.set_pace(pace)
            if shared is not None:
                is_first = await shared.join(segment, harvest)
        if self._politeness.is_over:
            return None
        if pace is not None:
            self._politeness.offers(self.worker, pace)
        fleet = self._start(is_first=is_first, has_joined=pace is not None)
        self._engine.wake()
        return fleet

    def _start(self, *, is_first: bool = True, has_joined: bool = False) -> Fleet:
        """Offers requests from now on. Only the first of several workers offers again what failed in earlier
        segments."""
        fleet = Fleet(
            self._scheduling, self.worker, self._writer, self, is_first=is_first, has_joined=has_joined
        )
        self._fleet = fleet
        fleet.start()
        self.worker.start(seeds=has_joined and is_first)
        failures, self._failed_before = self._failed_before, ()
        for failed in failures if is_first else ():
            self._retry(failed)
        return fleet

    def _idle(self) -> None:
        """Keeps the spider open while it may still get a request."""
        if self._fleet is not None and not self._crawl.is_ending and self._fleet.looks_on():
            raise DontCloseSpider

    async def _close(self) -> None:
        if not self._is_open:
            return
        try:
            counts = await self._close_queue()
        except QueueError as error:
            self._crawl.end(error)
            return
        finally:
            self._is_open, self._fleet = False, None
        self._settle_start_urls()
        for name, value in counts.as_plain().items():
            self._crawler.stats.set_value(f"scheduler/{name}", value)

    async def _close_queue(self) -> Counts:
        """Closes the queue, and returns what it holds by then. Raises QueueError."""
        await self._spider.settled()
        if self._waiting is not None and self._waiting[1] is not None:
            self.worker.give_back(self._waiting[1])
            self._waiting = None
        while self._left:
            request = self._left.popleft()
            if (answer := state_of(request).answer) is not None and not isinstance(answer, Exception):
                # No middleware sees this answer any more, and the site has sent it.
                self._crawl.traffic.received_bytes += len(answer.body)
            self._completed(request, is_cut_off=True)
        lost = self._memory.waiting + (self._waiting is not None)
        if lost:
            what = counted(lost, "request")
            _logger.warning("what waited in memory was not made, and is not kept: %s", what)
        self.left_nothing = self.worker.is_done and not lost
        if self._fleet is not None:
            await self._fleet.stop()
        try:
            await self._politeness.end()
            return await self._scheduling.queue.counts(self._scheduling.clock())
        finally:
            await self.worker.close()

    async def has_due(self) -> bool:
        """Returns whether a request of any segment is due. Reads all that waits. Raises QueueError."""
        if not self._is_open:
            return False
        counts = await self._scheduling.queue.counts(self._scheduling.clock())
        return any(counts.pending.values())

    async def overview(self) -> Overview | None:
        """Returns how full the queue is, or None if it is not open. Reads all that waits."""
        if not self._is_open:
            return None
        return await look(self._scheduling.queue, self._scheduling.clock())

    # What becomes of a request

    def _completed(self, request: Request, *, is_cut_off: bool = False) -> None:
        """Ends the lease of a request that is through, or was cut off on its way. If its results may not be
        kept, it is offered again in a later run."""
        if request not in self._under_way:
            return
        lease = self._under_way.pop(request)
        if not self._is_open:
            return
        self._politeness.over(request)
        reason = request.meta.get(FAILURE)
        if lease is None:
            # It waited in memory, so no failure list can hold it. Scrapy has logged the exception.
            return
        if is_cut_off or not self._crawl.is_all_kept:
            self.worker.cut_off(lease)
        elif reason is None:
            self.worker.finish(lease)
        else:
            self.worker.fail(lease, reason)

    # What blocks, the worker and politeness ask and tell

    def next_tiles(self, most: int) -> list[QueuedTile]:
        """Returns the tiles that start now, at most so many, each for a block that goes on. They are fewer if
        no more may start, or if what starts next is no tile of a block."""
        return self._start_tiles(most) if self._lets_blocks_go_on else []

    async def until_start(self) -> bool:
        """Returns True when a block that has got no tile may ask for one again: when the next lease may
        start, or when anything else has changed. Returns False at once if the block is over, because no lease
        waits for its start, or because another block waits for it."""
        if self._politeness.is_over or not self._lets_blocks_go_on:
            return False
        if self._next_start is not None or self._waiting is not None or not self.worker.awaits_start:
            return False
        self._next_start = asyncio.get_running_loop().create_future()
        try:
            await self._next_start
        finally:
            self._next_start = None
        if self.worker.may_start_several:
            # As after a rest. The block takes one of them, and nobody else would hear of the others.
            self._engine.wake()
        return True

    @property
    def _lets_blocks_go_on(self) -> bool:
        """Whether a block that is on the way may take another tile."""
        if self._fleet is None or self._politeness.reasons or self._left:
            return False
        return self._share is None or len(self._engine.on_the_way) <= self._share

    def leave(self, tile: QueuedTile, answer: Response | Exception | None = None) -> None:
        """Leaves a tile of a block to the engine, as an ordinary request that starts next. If there is an
        `answer`, the site is not asked again. The tile has failed if no request can be made of what has
        waited."""
        try:
            request = self._writer.made_of(tile.queued, tile.lease.attempt)
        except CodecError as error:
            self._drop_unreadable(tile.lease, error)
            return
        self._under_way[request] = tile.lease
        state_of(request).answer = answer
        self._left.append(request)
        self.wake()

    def through(self, *tiles: QueuedTile) -> None:
        """The results of these tiles of blocks are kept, and what they lead to is enqueued."""
        if not self._crawl.is_all_kept:
            self.cut_off(*tiles)
        elif self._is_open:
            self.worker.finish(*[tile.lease for tile in tiles])

    def cut_off(self, *tiles: QueuedTile) -> None:
        """These tiles of blocks have neither a result nor a failure. They are asked again in a later run."""
        if self._is_open:
            self.worker.cut_off(*[tile.lease for tile in tiles])

    @property
    def in_flight(self) -> int:
        """The number of requests on the way. A block counts as one, with the tile that it asks for."""
        return len(self._engine.on_the_way)

    @property
    def taken(self) -> int:
        """The number of leases that were taken, and whose requests have not started: a request waits for its
        own delay, or for the cost that is recorded ahead, or for the end of a block that may not take it."""
        return int(self._waiting is not None and self._waiting[1] is not None)

    @property
    def may_start(self) -> bool:
        """Whether any request may start."""
        return not self._politeness.reasons

    def exchanged(self, answer: Exchange) -> None:
        """Counts what the queue has answered, and wakes the engine."""
        for name, count in (
            ("dropped/seen", answer.duplicates),
            ("filter/false_alarms", answer.false_alarms),
            ("refused", answer.refused),
            ("leased_in_all", len(answer.leases)),
        ):
            if count:
                self._count(name, count)
        if answer.leases and self._fleet is not None:
            self._fleet.has_looked = False
        self._share = self._share if answer.share is None else answer.share
        self._politeness.exchanged(answer.notes)
        if self.worker.is_told:
            self._settle_start_urls()
        self.wake()

    def _settle_start_urls(self) -> None:
        """Forgets the start URLs that were taken, once the queue holds every request that was made of them.
        It holds none that waits in memory, or has waited there and is not through."""
        if self._start_urls is None or self._memory.waiting or None in self._under_way.values():
            return
        if self._waiting is None or self._waiting[1] is not None:
            self._start_urls.settle()

    def wake(self) -> None:
        """Lets the block that waits for a start, or else the engine, ask for a request: one that had to wait
        may start now. When a block ends, the engine asks, too."""
        if self._next_start is None:
            self._engine.wake()
        elif not self._next_start.done():
            self._next_start.set_result(None)

    def end(self, why: TileHarvestError | str) -> None:
        """Ends the crawl. Requests that were leased are offered again in the next run."""
        self._crawl.end(why)

    def check(self) -> None:
        """Looks, every second, whether the crawl may go on. Raises BudgetError if too little room is left on
        the disk.

        Scrapy tells nobody that it begins to close, and then waits for all that is on the way. A request that
        waits for its turn beside the queue would keep it open, and is told from here.
        """
        if self._is_open and is_closing(self._crawler.engine):
            self._politeness.cut_short()
        self._crawl.say_wait()
        if self._start_urls is not None:
            self._start_urls.check()
        if self._crawl.harvest is not None:
            self._crawl.harvest.check_room()

    def _count(self, name: str, number: int = 1) -> None:
        self._crawler.stats.inc_value(f"scheduler/{name}", number)

    # From leases to requests

    def _start_tiles(self, most: int) -> list[QueuedTile]:
        """Starts the tiles of blocks that come next, at most so many, and returns them. Takes no further
        lease behind a request that is no tile of a block: that one waits. Takes leases once, unless nothing
        comes of them: two tiles that are to start apart must not be returned together."""
        if self._waiting is None and self._memory.waiting:
            remembered = self._memory.take(self._scheduling.clock())
            if remembered is not None:
                self._waiting = remembered, None
        tiles: list[QueuedTile] = []
        while self._waiting is None and not tiles and (leases := self.worker.next_leases(most)):
            for number, lease in enumerate(leases, start=1):
                made = self._made_of(lease)
                if isinstance(made, QueuedTile):
                    tiles.append(made)
                elif made is not None:
                    self._waiting = made, lease
                    self.worker.put_back(leases[number:])
                    break
        starting = self._politeness.count_starts(len(tiles)) if tiles else 0
        if starting < len(tiles):
            self.worker.put_back([tile.lease for tile in tiles[starting:]])
        self.worker.lease_more()
        return tiles[:starting]

    def _start_waiting(self) -> Request | None:
        """Starts the request that waits, and returns it, or None if there is none that may start."""
        if self._waiting is None or not self._politeness.starts_now(self._waiting[0]):
            return None
        (request, lease), self._waiting = self._waiting, None
        self._under_way[request] = lease
        if request.errback is None:
            request.errback = not_downloaded
        return request

    def _made_of(self, lease: Lease) -> QueuedTile | Request | None:
        """Returns the tile of a block, or the request, that a lease is about. Returns None if the lease was
        ended, as nothing can be made of it any more."""
        is_begun = lease.segment == self._begun
        try:
            queued = decode(lease.body)
            if self._way is not None and self._way.takes(lease, queued, is_begun=is_begun):
                return QueuedTile(lease, queued)
            request = self._writer.made_of(queued, lease.attempt)
        except CodecError as error:
            self._drop_unreadable(lease, error)
            return None
        prepared = request if is_begun else self._spider.prepared(request, lease.segment)
        if prepared is None:
            self._count("dropped/outdated")
            self.worker.finish(lease)
        return prepared

    def _drop_unreadable(self, lease: Lease, error: CodecError) -> None:
        _logger.error("%s", error)
        self._count("dropped/unreadable")
        self.worker.fail(lease, str(error))

    # From requests to entries

    def _filtered_by(self, request: Request) -> bytes | None:
        """Returns the fingerprint by which the queue filters, or None for a request that it never drops as
        seen."""
        if request.method == "POST" or not self._scheduling.filters:
            return None
        if request.dont_filter and not self._is_of_start_urls(request):
            return None
        return self._fingerprint(request)

    def _is_repeated_post(self, request: Request) -> bool:
        """Returns whether this process has enqueued the same POST before.

        Only the process remembers, as with Scrapy's own scheduler: a later run must be able to log in again.
        """
        if request.dont_filter or not self._scheduling.filters:
            return False
        return not self._memory.is_new(self._scheduling.segment_of(request), self._fingerprint(request))

    def _is_of_start_urls(self, request: Request) -> bool:
        """Returns whether Scrapy itself has made the request of one of `start_urls`. Scrapy does not filter
        these; here a segment has each of them once. A repeat or a copy of one is not meant: it has been
        offered."""
        return self._has_usual_start and "is_start_request" in request.meta and not is_offered(request)

    def _keep_in_memory(self, request: Request, why: CodecError | None) -> bool:
        segment, fingerprint = self._scheduling.segment_of(request), self._filtered_by(request)
        is_new = self._memory.add(request, segment, fingerprint, why)
        self._count("in_memory" if is_new else "dropped/seen")
        return is_new

    def _retry(self, failure: Failure) -> None:
        """Offers again, before anything else, a request that failed in an earlier segment.

        The request counts as seen in the present segment. A spider that makes its requests anew in each
        segment asks only once.
        """
        try:
            failed = self._writer.read(failure.body, failure.attempts)
        except CodecError as error:
            _logger.error("%s", error)
            return
        request = self._spider.again(failed)
        if request is not None:
            fingerprint = None if failure.segment == PUSHED else self._filtered_by(request)
            segment = PUSHED if fingerprint is None else self._scheduling.segment_of(request)
            body, priority = self._writer.write(request), max(1, failure.priority)
            self.worker.push(Entry(body, segment, fingerprint, priority))
        self.worker.take_up(failure.id)
        self._count("retried_failures")


def scheduler_of(crawler: Crawler) -> Scheduler | None:
    """Returns the scheduler of a crawler whose spider is open, or None if it is Scrapy's or another one."""
    scheduler = crawler.engine.scheduler
    return scheduler if isinstance(scheduler, Scheduler) else None
