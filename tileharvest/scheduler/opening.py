"""Opening a queue for the work of a crawl: alone or beside others, afresh or where it was left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.errors import QueueError
from tileharvest.scheduler.fleet import silent_after
from tileharvest.scheduler.sharing import refuse_company

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.scheduler.port import Failure
    from tileharvest.scheduling import Scheduling


async def open_queue(scheduling: Scheduling) -> Sequence[Failure]:
    """Let the crawl work on its queue; what failed in it in other segments than the present one.

    Raises QueueError, also where this worker must not work beside those that are at it, and
    ConfigurationError for settings with which nothing can be reached.
    """
    queue, current = scheduling.queue, scheduling.segment_of(None)
    await _open(scheduling)
    if scheduling.shared is not None:
        # Before the history hears of this harvest, which ends one of another segment.
        refuse_company(
            await scheduling.shared.workers(),
            current,
            silent=silent_after(scheduling.lease_seconds),
            is_fresh=scheduling.fresh,
            is_history_local=scheduling.is_history_local,
        )
    if scheduling.fresh:
        await queue.forget(current)
    await queue.forget_others(scheduling.segments_kept, current)
    return [failure for failure in await queue.failures() if failure.segment != current]


async def _open(scheduling: Scheduling) -> None:
    queue = scheduling.queue
    try:
        await queue.open(scheduling.clock())
    except QueueError:
        discard = getattr(queue, "discard", None)
        if not scheduling.fresh or discard is None:
            raise
        # The way out of a queue that cannot be read, or that another version wrote.
        await discard()
        await queue.open(scheduling.clock())
