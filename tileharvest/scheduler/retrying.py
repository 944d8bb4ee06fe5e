"""Offers again, in a new segment, what failed in earlier ones."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tileharvest.queue.codec import UnreadableRequestError
from tileharvest.queue.requests import PUSHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tileharvest.queue.port import Failure
    from tileharvest.scheduler.request_writer import RequestWriter

_logger = logging.getLogger(__name__)


def requests_of(
    failures: Iterable[Failure], writer: RequestWriter, again: Callable[[Any], Any] | None
) -> list[tuple[Failure, Any, bool]]:
    """Each failure that can be read, its request as it is to be asked now (None: not any more), and whether
    it belongs to the present segment.

    It is then seen in that, so that a spider which makes its requests anew in each segment does not ask
    twice.
    """
    found = []
    for failure in failures:
        try:
            request: Any = writer.read(failure.body, failure.attempts)
        except UnreadableRequestError as error:
            _logger.error("%s", error)
            continue
        if again is not None:
            request = again(request)
        is_counted = request is not None and failure.segment != PUSHED and not request.dont_filter
        found.append((failure, request, is_counted))
    return found
