"""What one process remembers beside the queue: requests that JSON cannot hold, and what it sent by POST."""

from __future__ import annotations

import heapq
import logging
from itertools import count
from typing import TYPE_CHECKING

from tileharvest.queue.requests import FAILURE, NOT_BEFORE, STATE, RequestState

if TYPE_CHECKING:
    from scrapy import Request

_logger = logging.getLogger(__name__)


class RequestMemory:
    """Requests with a callback that has no name, such as a lambda, or with an object in their meta.

    They are lost when the process ends, and no other worker gets any. So they are offered before what waits
    in the queue: the highest priority first, and equal ones in the order in which they came. Each is made
    once per segment and process; the queue does not hear of it, and a request for the same page that JSON
    can hold is another one.
    """

    def __init__(self) -> None:
        self._due: list[tuple[int, int, Request]] = []
        """A heap of what may be offered: the priority with its sign changed, the number, the request."""
        self._delayed: list[tuple[float, int, Request]] = []
        """A heap of what waits for its time, in seconds since 1970."""
        self._seen: set[tuple[str, bytes]] = set()
        """Segments and fingerprints of what came and is filtered, and of what is sent by POST."""
        self._numbers = count()
        self.waiting = 0
        """How many requests are here. It is read whenever Scrapy asks for a request, so it is no property."""
        self._has_told = False

    def add(self, request: Request, segment: str, fingerprint: bytes | None, why: object | None) -> bool:
        """Let the request wait. Returns False if it was seen in its segment. Without a fingerprint it never
        was. The first time the log says why it waits here, unless that is usual: then `why` is None."""
        if fingerprint is not None and not self.is_new(segment, fingerprint):
            return False
        if why is not None and not self._has_told:
            self._has_told = True
            _logger.warning(
                "%s waits in memory, because JSON cannot hold it: %s. It is lost if the process ends before"
                " it was made. The same is not said again for others; scheduler/in_memory counts them",
                request,
                why,
            )
        self.waiting += 1
        due = request.meta.get(NOT_BEFORE)
        if due is None:
            self._push(request)
        else:
            heapq.heappush(self._delayed, (due, next(self._numbers), request))
        return True

    def is_new(self, segment: str, fingerprint: bytes) -> bool:
        """Returns whether this is the request's first time in its segment. It is remembered."""
        if (segment, fingerprint) in self._seen:
            return False
        self._seen.add((segment, fingerprint))
        return True

    def take(self, now: float) -> Request | None:
        """Returns the request that is next, or None while none may start."""
        while self._delayed and self._delayed[0][0] <= now:
            self._push(heapq.heappop(self._delayed)[2])
        if not self._due:
            return None
        self.waiting -= 1
        request = heapq.heappop(self._due)[2]
        # As if it had been written and read: the attempt before this one has left nothing.
        for key in (NOT_BEFORE, FAILURE):
            request.meta.pop(key, None)
        request.meta[STATE] = RequestState(attempt=1)
        return request

    def _push(self, request: Request) -> None:
        heapq.heappush(self._due, (-request.priority, next(self._numbers), request))
