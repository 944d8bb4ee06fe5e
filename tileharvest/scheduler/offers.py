"""The requests of one crawl: what its spider enqueues becomes entries, and leases become requests again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tileharvest.errors import QueueError
from tileharvest.queue.codec import UnreadableRequestError, UnwritableRequestError
from tileharvest.queue.port import Entry
from tileharvest.queue.requests import FAILURE, NOT_BEFORE, PUSHED
from tileharvest.queue.seen_filter import SeenFilter
from tileharvest.queue.shared_queue import Ending, silent_after
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.fleet import HEARTBEAT, Fleet, refuse_company
from tileharvest.scheduler.request_writer import RequestWriter
from tileharvest.scheduler.spider import as_held
from tileharvest.scheduler.worker import QueueWorker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler

    from tileharvest.queue.port import Exchange, Failure, Lease
    from tileharvest.scheduler.completion import EngineHook
    from tileharvest.scheduler.politeness import Politeness
    from tileharvest.scheduler.settings import Scheduling

_logger = logging.getLogger(__name__)


class Offers:
    """Takes the requests of one spider, and offers them when it is their turn.

    Nothing is offered before `start` or `join`. It is used from one event loop.
    """

    def __init__(
        self,
        scheduling: Scheduling,
        politeness: Politeness,
        crawler: Crawler,
        engine: EngineHook,
    ) -> None:
        self._scheduling = scheduling
        self._politeness = politeness
        self._stats = crawler.stats
        self._engine = engine
        self._crawl = crawl_of(crawler)
        spider = crawler.spider
        assert spider is not None
        self._spider = as_held(spider)
        self._prepared = self._spider.prepared
        self._fingerprint = crawler.request_fingerprinter.fingerprint
        self._writer = RequestWriter(spider)
        self.worker = QueueWorker(
            scheduling.queue,
            self,
            ahead=scheduling.ahead,
            lease_seconds=scheduling.lease_seconds,
            clock=scheduling.clock,
            linger=scheduling.linger,
            heartbeat=None if scheduling.shared is None else min(HEARTBEAT, scheduling.lease_seconds / 3),
        )
        self._fleet: Fleet | None = None
        """While requests are offered."""
        self._filters: dict[str, SeenFilter] = {}
        """By segment: what is surely new there."""
        self._failures: Sequence[Failure] = ()
        """What failed in earlier segments, until it is offered again."""
        self._under_way: dict[Request, Lease] = {}
        self._waiting: tuple[Request, Lease] | None = None
        """The request whose turn has not come."""
        self._share: int | None = None
        self._said_waiting = False

    # The beginning and the end

    async def open(self) -> None:
        """Make the crawl a worker of its queue, and hear what a person has told the map.

        Raises QueueError, also where this worker must not work beside those that are at it, and
        ConfigurationError for settings with which nothing can be reached.
        """
        scheduling, queue, current = self._scheduling, self._scheduling.queue, self._segment
        try:
            await queue.open(scheduling.clock())
        except QueueError:
            if not scheduling.fresh:
                raise
            # The way out of a queue that cannot be read, or that another version wrote.
            await queue.discard()
            await queue.open(scheduling.clock())
        if scheduling.shared is not None:
            # This comes before it can tell the others anything, and before the history hears of this harvest,
            # which ends one of another segment.
            refuse_company(
                await scheduling.shared.workers(),
                current,
                silent=silent_after(scheduling.lease_seconds),
                is_fresh=scheduling.fresh,
                is_history_local=scheduling.is_history_local,
            )
        # From now on the crawl can be told to stop. What was told before is not for this crawl.
        await self._politeness.begin()
        if scheduling.fresh:
            await queue.forget(current)
        await queue.forget_others(scheduling.segments_kept, current)
        self._failures = [failure for failure in await queue.failures() if failure.segment != current]
        await self._load_filter()

    async def join(self, harvest: str, *, continued: bool) -> Fleet | None:
        """Offer requests from now on, for the work of the present segment, which `harvest` names.

        The requests that the segment had are dropped unless its work is continued. Returns None when the
        crawl is about to end. Raises QueueError.
        """
        queue, shared, pace = self._scheduling.queue, self._scheduling.shared, self._politeness.pace
        is_first, segment = True, self._segment
        if not continued and shared is None:
            await queue.forget(segment)
            await self._load_filter()
        # A harvest makes no request of an earlier one: each would take a turn only to be dropped. They are
        # dropped only now, because the filter has been made for as many requests as the last segment had.
        await queue.forget_others(1, segment)
        if pace is not None:
            await queue.set_pace(pace)
            if shared is not None:
                is_first = await shared.join(segment, harvest)
        if self._politeness.is_over:
            return None
        if pace is not None:
            self._politeness.offers(self.worker, pace)
        fleet = self.start(is_first=is_first, has_joined=pace is not None)
        self._engine.wake()
        return fleet

    def start(self, *, is_first: bool = True, has_joined: bool = False) -> Fleet:
        """Offer requests from now on. Of several workers only the first offers again what failed in earlier
        segments."""
        fleet = Fleet(
            self._scheduling, self.worker, self._writer, self, is_first=is_first, has_joined=has_joined
        )
        self._fleet = fleet
        fleet.start()
        self.worker.start()
        failures, self._failures = self._failures, ()
        for failure in failures if is_first else ():
            self._retry(failure)
        return fleet

    async def stop(self) -> bool:
        """Offer nothing more. Returns whether nothing is left, for now or for later. `worker` is still to be
        closed."""
        await self._spider.settled()
        if self._waiting is not None:
            self.worker.give_back(self._waiting[1])
        is_done = self.worker.is_done
        if self._fleet is not None:
            await self._fleet.stop()
        return is_done

    # What a scheduler is asked

    def push(self, request: Request) -> bool:
        """Returns False for what is dropped here: too deep, or not to be written.

        Whether a request was seen in its segment is known when the queue has looked. It is then dropped there
        and counted.
        """
        entry = self._entry_of(request)
        if entry is None:
            return False
        if self._fleet is not None:
            self._fleet.goes_on()
        self.worker.push(entry)
        return True

    def next(self) -> Request | None:
        """Returns the request that starts now, or None while none may start."""
        if self._fleet is None or not self._politeness.may_offer() or self._has_its_share():
            return None
        waiting, self._waiting = self._waiting or self._leased(), None
        if waiting is None:
            return None
        request, lease = waiting
        if not self._politeness.comes(request):
            self._waiting = waiting
            return None
        self._under_way[request] = lease
        return request

    def completed(self, request: Request) -> None:
        """The request is through. Unless what it found is surely kept, it is offered again in a later run."""
        lease = self._under_way.pop(request, None)
        if lease is None:
            return
        self._politeness.over(request)
        reason = request.meta.get(FAILURE)
        if not self._crawl.is_all_kept:
            self.worker.give_back(lease)
        elif reason is None:
            self.worker.finish(lease)
        else:
            self.worker.fail(lease, reason)

    def must_stay(self) -> bool:
        """Whether the spider must stay: for what is due, for what soon will be, or because it was told to."""
        fleet, worker, scheduling = self._fleet, self.worker, self._scheduling
        if fleet is None or self._waiting or scheduling.stay or not worker.is_empty:
            return True
        if fleet.ending is not Ending.GOES_ON:
            return False
        if worker.answer.leased_elsewhere or worker.answer.held_until is not None:
            return True
        next_due = worker.answer.next_due
        if next_due is None:
            return fleet.awaits_end
        patience = scheduling.close_when_waiting
        if patience is None or next_due - scheduling.clock() <= patience:
            return True
        if not self._said_waiting:
            self._said_waiting = True
            _logger.info("requests wait until %s; run it again then", scheduling.in_words(next_due))
        return False

    # What the worker asks and tells

    @property
    def in_flight(self) -> int:
        """How many requests are on the way."""
        return self._engine.in_flight

    @property
    def may_start(self) -> bool:
        """Whether any request may start."""
        return self._politeness.may_offer()

    def exchanged(self, answer: Exchange) -> None:
        """The queue has answered."""
        for name, count in (
            ("dropped/seen", answer.duplicates),
            ("filter/false_alarms", answer.false_alarms),
            ("refused", answer.refused),
            ("leased_in_all", len(answer.leases)),
        ):
            if count:
                self._count(name, count)
        self._share = self._share if answer.share is None else answer.share
        if self._fleet is not None:
            self._fleet.exchanged()
        self._engine.wake()

    def wake(self) -> None:
        """A request that had to wait may start now."""
        self._engine.wake()

    def failed(self, error: QueueError) -> None:
        """The queue cannot go on. What was leased is offered again next time."""
        self._crawl.end(error)

    def _count(self, name: str, number: int = 1) -> None:
        self._stats.inc_value(f"scheduler/{name}", number)

    # From leases to requests

    def _leased(self) -> tuple[Request, Lease] | None:
        while (lease := self.worker.next_lease()) is not None:
            request = self._request_of(lease)
            if request is not None:
                return request, lease
        return None

    def _request_of(self, lease: Lease) -> Request | None:
        try:
            request = self._writer.read(lease.body, lease.attempt)
        except UnreadableRequestError as error:
            _logger.error("%s", error)
            self._count("dropped/unreadable")
            self.worker.fail(lease, str(error))
            return None
        prepared = self._prepared(request, lease.segment)
        if prepared is None:
            self._count("dropped/outdated")
            self.worker.finish(lease)
        return prepared

    def _has_its_share(self) -> bool:
        """Whether the other workers leave this one no further request on the way."""
        return self._share is not None and self._engine.in_flight >= self._share

    # From requests to entries

    def _entry_of(self, request: Request) -> Entry | None:
        meta, most = request.meta, self._scheduling.max_depth
        if most is not None and meta.get("depth", 0) > most:
            self._count("dropped/depth")
            return None
        try:
            body = self._writer.write(request)
        except UnwritableRequestError as error:
            _logger.error("%s was not queued: %s", request, error)
            self._count("dropped/unwritable")
            return None
        segment = self._scheduling.segment_of(request)
        fingerprint = None if request.dont_filter or request.method == "POST" else self._fingerprint(request)
        maybe_seen = self._maybe_seen(segment, fingerprint)
        return Entry(body, segment, fingerprint, request.priority, meta.get(NOT_BEFORE), maybe_seen)

    def _retry(self, failure: Failure) -> None:
        """Offer again, before anything else, what failed in an earlier segment.

        It counts as seen in the present segment, so that a spider which makes its requests anew in each
        segment does not ask twice.
        """
        try:
            failed = self._writer.read(failure.body, failure.attempts)
        except UnreadableRequestError as error:
            _logger.error("%s", error)
            return
        request = self._spider.again(failed)
        if request is not None:
            segment, fingerprint = PUSHED, None
            if failure.segment != PUSHED and not request.dont_filter:
                segment, fingerprint = self._scheduling.segment_of(request), self._fingerprint(request)
            maybe_seen = self._maybe_seen(segment, fingerprint)
            body, priority = self._writer.write(request), max(1, failure.priority)
            self.worker.push(Entry(body, segment, fingerprint, priority, None, maybe_seen))
        self.worker.take_up(failure.id)
        self._count("retried_failures")

    # What is surely new

    @property
    def filter_bytes(self) -> int:
        """What the filters' bits take."""
        return sum(found.memory_bytes for found in self._filters.values())

    @property
    def _segment(self) -> str:
        return self._scheduling.segment_of(None)

    async def _load_filter(self) -> None:
        """Make a filter that tells what is surely new in the present segment, for as many requests as it has
        and a quarter more. No filter of this worker can know what others push, so a shared queue has none."""
        scheduling, segment = self._scheduling, self._segment
        if scheduling.shared is None:
            counts = await scheduling.queue.counts(scheduling.clock())
            found = SeenFilter(max(scheduling.expected, counts.seen * 5 // 4), scheduling.error_rate)
            await found.load(scheduling.queue.fingerprints(segment))
            self._filters[segment] = found

    def _maybe_seen(self, segment: str, fingerprint: bytes | None) -> bool | None:
        found = self._filters.get(segment)
        # Without a filter the queue looks itself: it is shared, or the segment has begun meanwhile.
        return None if found is None or fingerprint is None else found.add(fingerprint)
