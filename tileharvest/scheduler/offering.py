"""From what a spider wants to ask to what may be asked now. Knows requests by their shape, not Scrapy."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tileharvest.queue.codec import UnreadableRequestError
from tileharvest.queue.fleet import Ending
from tileharvest.queue.requests import FAILURE, RequestWriter
from tileharvest.scheduler.entries import Entries
from tileharvest.scheduler.exchanging import Exchanging
from tileharvest.scheduler.retrying import requests_of
from tileharvest.scheduler.sharing import HEARTBEAT, Sharing
from tileharvest.scheduler.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileharvest.errors import QueueError
    from tileharvest.queue.port import Exchange, Failure, Lease
    from tileharvest.scheduler.politeness import Politeness
    from tileharvest.scheduler.settings import Scheduling

_logger = logging.getLogger(__name__)


class Offering:
    """Takes the requests of one spider, and offers them when it is their turn. Used from one event loop.

    Nothing is offered before `start`. `count` is called with what happened and how often; `wake` when a
    request may be there after there was none; `failed` when the queue cannot go on.
    """

    def __init__(
        self,
        scheduling: Scheduling,
        politeness: Politeness,
        *,
        spider: Any,
        kinds: Mapping[str, type[Any]],
        fingerprint: Callable[[Any], bytes],
        count: Callable[[str, int], None],
        wake: Callable[[], None],
        in_flight: Callable[[], int],
        failed: Callable[[QueueError], None],
    ) -> None:
        """`kinds` are the classes of requests that may be kept, by their names. `in_flight` tells how many
        requests are on the way."""
        self._scheduling = scheduling
        self._politeness = politeness
        self._count = count
        self._wake = wake
        self._in_flight = in_flight
        self._failed = failed
        self._prepared = getattr(spider, "prepared", None)
        self._again = getattr(spider, "again", None)
        self._settled = getattr(spider, "settled", None)
        self._writer = RequestWriter(spider, kinds)
        self.entries = Entries(
            self._writer,
            fingerprint=fingerprint,
            segment_of=scheduling.segment_of,
            max_depth=scheduling.max_depth,
            count=lambda reason: count(reason, 1),
        )
        self.exchanging = Exchanging(
            scheduling.queue,
            ahead=scheduling.ahead,
            lease_seconds=scheduling.lease_seconds,
            clock=scheduling.clock,
            changed=self._exchanged,
            failed=failed,
            linger=scheduling.linger,
            heartbeat=None if scheduling.shared is None else min(HEARTBEAT, scheduling.lease_seconds / 3),
            in_flight=in_flight,
            may_lease=politeness.may_offer,
        )
        self.failures: Sequence[Failure] = ()
        """What failed in earlier segments."""
        self._sharing: Sharing | None = None
        self._is_started = False
        self._under_way: dict[Any, Lease] = {}
        self._waiting: tuple[Any, Lease] | None = None
        """Whose turn has not come."""
        self._share: int | None = None
        self._said_waiting = False

    def push(self, request: Any) -> bool:
        """False for what is dropped: too deep, not to be written, or surely seen. Whether any other was seen
        in its segment is known when the queue has looked; a seen one is dropped there, and counted."""
        entry = self.entries.of(request)
        if entry is None:
            return False
        if self._sharing is not None:
            self._sharing.goes_on()
            if self._sharing.surely_pushed(entry.segment, entry.fingerprint):
                self._count("dropped/seen", 1)
                return False
        self.exchanging.push(entry)
        return True

    def next(self) -> Any | None:
        """The request that starts now; None while none may, or there is none."""
        if not self._is_started or not self._politeness.may_offer() or self._has_its_share():
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

    def completed(self, request: Any, *, is_kept: bool) -> None:
        """The request is through. Unless what it found is surely kept, it is offered again in a later run."""
        lease = self._under_way.pop(request, None)
        if lease is None:
            return
        self._politeness.over(request)
        reason = request.meta.get(FAILURE)
        if not is_kept:
            self.exchanging.give_back(lease)
        elif reason is None:
            self.exchanging.finish(lease)
        else:
            self.exchanging.fail(lease, reason)

    def must_stay(self) -> bool:
        """Whether the spider must stay: for what is due, for what soon will be, or because it was told to."""
        if not self._is_started or self._waiting or self._scheduling.stay or not self.exchanging.is_empty:
            return True
        if self._sharing is not None and self._sharing.ending is not Ending.GOES_ON:
            return False
        if self.exchanging.others_work or self.exchanging.is_held_back:
            return True
        next_due = self.exchanging.next_due
        if next_due is None:
            return self._sharing is not None and self._sharing.has_joined
        patience = self._scheduling.close_when_waiting
        if patience is None or next_due - self._scheduling.clock() <= patience:
            return True
        if not self._said_waiting:
            self._said_waiting = True
            _logger.info("requests wait until %s; run it again then", self._scheduling.in_words(next_due))
        return False

    def start(self, *, is_first: bool, has_joined: bool) -> None:
        """Offer requests from now on; of several workers only the first offers again what failed in earlier
        segments. `has_joined`: for work whose end is told to all who share the queue."""
        self._is_started = True
        if self._scheduling.shared is not None:
            self._sharing = Sharing(
                self._scheduling.shared,
                self.exchanging,
                self._scheduling.segment_of(None),
                has_joined=has_joined,
                wake=self._wake,
                failed=self._failed,
            )
            self._sharing.start()
        self.exchanging.start()
        failures, self.failures = self.failures, ()
        found = requests_of(failures, self._writer, self._again) if is_first else ()
        for failure, request, is_counted in found:
            entry = request and self.entries.of_failure(failure, request, is_counted=is_counted)
            self.exchanging.take_up(failure.id, entry)
            self._count("retried_failures", 1)

    def work(self, segment: str, *, is_first: bool) -> Work:
        """What was started, as a harvest sees it."""
        return Work(
            self.exchanging,
            segment,
            queue=self._scheduling.queue,
            writer=self._writer,
            is_first=is_first,
            shared=self._scheduling.shared,
            sharing=self._sharing,
        )

    async def stop(self) -> bool:
        """Offer nothing more; whether nothing is left, for now or for later. `exchanging` is still to be
        closed."""
        if self._settled is not None:
            await self._settled()
        if self._waiting is not None:
            self.exchanging.give_back(self._waiting[1])
        is_done = self.exchanging.is_done
        if self._sharing is not None:
            await self._sharing.stop()
        return is_done

    def _leased(self) -> tuple[Any, Lease] | None:
        while (lease := self.exchanging.next_lease()) is not None:
            request = self._read(lease)
            if request is not None:
                return request, lease
        return None

    def _read(self, lease: Lease) -> Any | None:
        try:
            request = self._writer.read(lease.body, lease.attempt)
        except UnreadableRequestError as error:
            _logger.error("%s", error)
            self._count("dropped/unreadable", 1)
            self.exchanging.fail(lease, str(error))
            return None
        if self._prepared is not None:
            request = self._prepared(request, lease.segment)
        if request is None:
            self._count("dropped/outdated", 1)
            self.exchanging.finish(lease)
        return request

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
        self._wake()

    def _has_its_share(self) -> bool:
        """Whether the other workers leave this one no further request on the way."""
        return self._share is not None and self._in_flight() >= self._share
