"""How a crawl begins to work on its queue, and beside which other workers it may."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from tileharvest.errors import QueueError
from tileharvest.queue.controls import Controls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.queue.port import Worker
    from tileharvest.scheduler.settings import Scheduling


async def open_queue(scheduling: Scheduling) -> Controls:
    """Becomes a worker of the queue, and forgets what does not count any more. Returns what a person has
    ordered. Raises QueueError, also if this worker must not work beside the others."""
    queue, current = scheduling.queue, scheduling.segment
    try:
        await queue.open(current, time.time())
    except QueueError:
        if not scheduling.fresh:
            raise
        # If a queue cannot be read, the message asks for `fresh=1`.
        await queue.discard()
        await queue.open(current, time.time())
    workers = await queue.workers() or ()
    refuse_company(workers, current, is_fresh=scheduling.fresh, is_history_local=scheduling.is_history_local)
    if scheduling.fresh:
        await queue.forget(current)
    await queue.forget_others(scheduling.segments_kept, current)
    return Controls.read(await queue.notes())


def refuse_company(
    workers: Sequence[Worker], segment: str, *, is_fresh: bool, is_history_local: bool
) -> None:
    """Raises QueueError if this worker must not work beside the others.

    It must not work for another segment than theirs. It must not start afresh beside them. And if its history
    is a file, it must not work beside workers of another machine.
    """
    others = [one for one in workers if not _is_own(one)]
    strangers = [one for one in others if one.machine not in {own.machine for own in workers if _is_own(own)}]
    if is_history_local and strangers:
        raise QueueError(
            f"this worker keeps the history in a file of its own machine, and {_named(strangers)} on"
            " another one works on the same queue: each would record a part of the harvest; nothing was asked"
            " for; give all of them one PostgreSQL, DATABASE_URL=postgresql+psycopg://USER:PASSWORD@HOST/NAME"
        )
    earlier = [one for one in others if one.segment not in ("", segment)]
    if earlier:
        raise QueueError(
            f"the crawl of {earlier[0].segment} is still under way at {_named(earlier)}; nothing was asked"
            f" for; run again for {segment} when it has ended, or stop it; a worker that was killed is"
            " forgotten when its leases expire"
        )
    if is_fresh and others:
        raise QueueError(
            f"a crawl cannot start afresh while others work on it: {_named(others)}; nothing was changed;"
            " let them end or stop them, or leave out --fresh or -a fresh=1 to work with them"
        )


def _is_own(worker: Worker) -> bool:
    """Returns whether this is our own worker, or one with the same pid that was killed in this container."""
    return worker.host == socket.gethostname() and worker.pid == os.getpid()


def _named(workers: Sequence[Worker]) -> str:
    return ", ".join(f"{worker.host} (pid {worker.pid})" for worker in workers)
