"""From requests to what a queue keeps of them: segment, fingerprint, whether it may have been seen."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tileharvest.queue.codec import UnwritableRequestError
from tileharvest.queue.port import Entry
from tileharvest.queue.requests import NOT_BEFORE, PUSHED
from tileharvest.queue.seen_filter import SeenFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.queue.port import Failure, RequestQueue
    from tileharvest.queue.requests import RequestWriter

_logger = logging.getLogger(__name__)


class Entries:
    """Makes the entries of one crawl. `count` is called with the reason whenever a request is dropped."""

    def __init__(
        self,
        writer: RequestWriter,
        *,
        fingerprint: Callable[[Any], bytes],
        segment_of: Callable[[Any], str],
        max_depth: int | None,
        count: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._fingerprint = fingerprint
        self._segment_of = segment_of
        self._max_depth = max_depth
        self._count = count
        self._filters: dict[str, SeenFilter] = {}

    @property
    def filter_bytes(self) -> int:
        """What the filters' bits take."""
        return sum(found.memory_bytes for found in self._filters.values())

    async def load_filter(self, queue: RequestQueue, segment: str, expected: int, error_rate: float) -> None:
        """Let a filter tell what is surely new in the segment; it holds what the queue has seen of it."""
        found = SeenFilter(expected, error_rate)
        await found.load(queue.fingerprints(segment))
        self._filters[segment] = found

    def of(self, request: Any) -> Entry | None:
        """None for a request that is dropped: too deep, or not to be written."""
        meta = request.meta
        if self._max_depth is not None and meta.get("depth", 0) > self._max_depth:
            self._count("dropped/depth")
            return None
        try:
            body = self._writer.write(request)
        except UnwritableRequestError as error:
            _logger.error("%s was not queued: %s", request, error)
            self._count("dropped/unwritable")
            return None
        segment = self._segment_of(request)
        fingerprint = None if request.dont_filter or request.method == "POST" else self._fingerprint(request)
        maybe_seen = self._maybe_seen(segment, fingerprint)
        return Entry(body, segment, fingerprint, request.priority, meta.get(NOT_BEFORE), maybe_seen)

    def of_failure(self, failure: Failure, request: Any, *, is_counted: bool) -> Entry:
        """For a request that failed in an earlier segment. It goes first, and may count as seen in this."""
        segment, fingerprint = PUSHED, None
        if is_counted:
            segment, fingerprint = self._segment_of(request), self._fingerprint(request)
        maybe_seen = self._maybe_seen(segment, fingerprint)
        return Entry(
            self._writer.write(request), segment, fingerprint, max(1, failure.priority), None, maybe_seen
        )

    def _maybe_seen(self, segment: str, fingerprint: bytes | None) -> bool | None:
        found = self._filters.get(segment)
        # Without a filter the queue looks itself: one that others share, or a segment that begins meanwhile.
        return None if found is None or fingerprint is None else found.add(fingerprint)
