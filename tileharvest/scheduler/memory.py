"""Requests that JSON cannot hold, which wait in one process."""

from __future__ import annotations

import heapq
import logging
from itertools import count
from typing import TYPE_CHECKING

from tileharvest.queue.codec import NOT_BEFORE
from tileharvest.scheduler.leases import LEASE

if TYPE_CHECKING:
    from scrapy import Request

_logger = logging.getLogger(__name__)


class RequestMemory:
    """Requests with a callback that has no name, such as a lambda, or with an object in their meta.

    They are lost when the process ends, and no other worker gets any of them. So they are offered before the
    requests of the queue: those for a time last, else the highest priority first, and equal ones in the order
    in which they came. The queue does not know them: a request for the same page that JSON can hold is made,
    too.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, int, Request]] = []
        """A heap of the requests: the time before which it is not offered, in seconds since 1970 or 0, the
        negative priority, a number, the request."""
        self._seen: set[bytes] = set()
        self._numbers = count()
        self._has_warned = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def next_due(self) -> float | None:
        """The time at which the first request may be offered."""
        return self._waiting[0][0] if self._waiting else None

    def add(self, request: Request, fingerprint: bytes | None, why: object | None) -> bool:
        """Lets the request wait, and returns True. Returns False if it was seen. A request without a
        fingerprint is never seen.

        The first request that waits for a reason `why` is logged. None is for requests that usually wait
        here."""
        if fingerprint is not None and not self.is_new(fingerprint):
            return False
        if why is not None and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "%s waits in memory, because JSON cannot hold it: %s. It is lost if the process ends before"
                " it was made. The same is not said again for others; scheduler/in_memory counts them",
                request,
                why,
            )
        due = request.meta.pop(NOT_BEFORE, None) or 0.0
        heapq.heappush(self._waiting, (due, -request.priority, next(self._numbers), request))
        return True

    def is_new(self, fingerprint: bytes) -> bool:
        """Returns whether the fingerprint is new here, and remembers it."""
        before = len(self._seen)
        self._seen.add(fingerprint)
        return len(self._seen) > before

    def take(self, now: float) -> Request | None:
        """Returns the next request, or None if none may start."""
        if not self._waiting or self._waiting[0][0] > now:
            return None
        request = heapq.heappop(self._waiting)[3]
        # It may have been made of a leased one.
        request.meta.pop(LEASE, None)
        return request
