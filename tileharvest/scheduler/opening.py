"""A crawl's queue is opened, worked on and closed: alone or beside others, afresh or where it was left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.errors import QueueError
from tileharvest.queue.fleet import silent_after
from tileharvest.scheduler.sharing import refuse_company

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.politeness.rate_limit import Pace
    from tileharvest.queue.port import Counts, Failure
    from tileharvest.scheduler.entries import Entries
    from tileharvest.scheduler.offering import Offering
    from tileharvest.scheduler.politeness import Politeness
    from tileharvest.scheduler.settings import Scheduling


async def open_queue(scheduling: Scheduling) -> None:
    """Make the crawl a worker of its queue.

    Raises QueueError, also where this worker must not work beside those that are at it, and
    ConfigurationError for settings with which nothing can be reached.
    """
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
    if scheduling.shared is not None:
        # Before it can tell the others anything, and before the history hears of this harvest, which ends
        # one of another segment.
        refuse_company(
            await scheduling.shared.workers(),
            scheduling.segment_of(None),
            silent=silent_after(scheduling.lease_seconds),
            is_fresh=scheduling.fresh,
            is_history_local=scheduling.is_history_local,
        )


async def clear_queue(scheduling: Scheduling) -> Sequence[Failure]:
    """Drop from the queue what the crawl does not go on with; what failed in other segments than the present
    one. Raises QueueError."""
    queue, current = scheduling.queue, scheduling.segment_of(None)
    if scheduling.fresh:
        await queue.forget(current)
    await queue.forget_others(scheduling.segments_kept, current)
    return [failure for failure in await queue.failures() if failure.segment != current]


async def load_filter(scheduling: Scheduling, entries: Entries) -> None:
    """Tell what is surely new in the present segment: for as many requests as it has, and a quarter more.

    Raises QueueError.
    """
    queue = scheduling.queue
    # What others push no filter of this worker can know.
    if scheduling.shared is None:
        counts = await queue.counts(scheduling.clock())
        expected = max(scheduling.expected, counts.seen * 5 // 4)
        await entries.load_filter(queue, scheduling.segment_of(None), expected, scheduling.error_rate)


async def join_work(
    scheduling: Scheduling, entries: Entries, harvest: str, pace: Pace | None, *, continued: bool
) -> bool:
    """Whether this worker is the first at the work of the present segment, which `harvest` names; without
    the requests that the segment had unless its work is continued. Raises QueueError."""
    queue, segment = scheduling.queue, scheduling.segment_of(None)
    if not continued and scheduling.shared is None:
        await queue.forget(segment)
        await load_filter(scheduling, entries)
    # A harvest makes no request of an earlier one's: each would take a turn only to be dropped. Now, as the
    # filter has been made for as many requests as the last segment had.
    await queue.forget_others(1, segment)
    if pace is not None:
        await queue.set_pace(pace)
    if pace is not None and scheduling.shared is not None:
        return await scheduling.shared.join(segment, harvest)
    return True


async def close_queue(scheduling: Scheduling, offering: Offering, politeness: Politeness) -> Counts:
    """Tell the queue what it was not told yet, give back what was not started, and let it go; its counts
    just before. Raises QueueError."""
    try:
        await politeness.end()
        return await scheduling.queue.counts(scheduling.clock())
    finally:
        await offering.exchanging.close()
