"""A worker's part in a fleet: beside whom it may work, how it waits for work, and who ends the work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import QueueError
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.codec import CodecError
from tileharvest.queue.port import Entry
from tileharvest.queue.sentences import is_unanswered
from tileharvest.scheduler.worker import as_queue_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.queue.port import Failure, Worker
    from tileharvest.queue.redis.queue import Ending
    from tileharvest.scheduler.request_writer import RequestWriter
    from tileharvest.scheduler.settings import Scheduling
    from tileharvest.scheduler.worker import QueueWorker, WorkerListener

_logger = logging.getLogger(__name__)

POLL: Final = 0.5
"""Seconds after which a worker with nothing to do looks for requests that others have pushed or lost."""


class Fleet:
    """All workers of one segment, as one of them sees them while it makes requests.

    A worker whose queue is not shared is a fleet of one: it begins and ends everything. The methods that ask
    the queue raise QueueError if the queue cannot go on.
    """

    def __init__(
        self,
        scheduling: Scheduling,
        worker: QueueWorker,
        writer: RequestWriter,
        listener: WorkerListener,
        *,
        is_first: bool,
        has_joined: bool,
    ) -> None:
        """`has_joined` tells whether the worker works for a harvest, of whose end all its workers are told.
        An ordinary spider ends when nothing is left."""
        self._queue = scheduling.queue
        self._shared = scheduling.shared
        self._segment = scheduling.segment_of()
        self._worker = worker
        self._writer = writer
        self._listener = listener
        self.is_first = is_first
        """Whether the first requests are still to be enqueued. Call `seeded` when that is done."""
        self._awaits_end = has_joined and self._shared is not None
        """Whether this worker stays with nothing to do until it is told that the work has ended."""
        self.ending: Ending = "goes on"
        """How far the work is, as this worker last heard."""
        self._scheduling = scheduling
        self._said_waiting = False
        self._last_round: asyncio.Task[None] | None = None
        """Offers again what was given up. None until there is nothing else to do."""
        self.has_looked = False
        """Whether the queue was asked once more after the last lease, because others may have pushed."""
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to look for work, and for its end, when this worker has nothing to do."""
        if self._shared is not None or self._scheduling.stay:
            self._watching = asyncio.ensure_future(self._watch())

    async def stop(self) -> None:
        """Ends the tasks of this object."""
        for task in (self._watching, self._last_round):
            if task is not None:
                await cancel(task)

    # Remarks of the work

    async def note(self, key: str, value: str) -> None:
        """Writes a remark for all workers of the segment. It outlives kills."""
        await self._queue.note(self._segment, key, value)

    async def notes(self) -> dict[str, str]:
        """Returns all remarks of the segment."""
        return dict(await self._queue.notes(self._segment))

    # Whether there is more to come

    def stays(self) -> bool:
        """Returns whether the worker must stay: something is due or will be soon, or a person told it to."""
        worker, scheduling = self._worker, self._scheduling
        if scheduling.stay or not worker.is_empty:
            return True
        if self.ending != "goes on":
            return False
        if worker.answer.leased_elsewhere or worker.answer.held_until is not None:
            return True
        next_due = worker.answer.next_due
        if next_due is None:
            return self._awaits_end
        patience = scheduling.close_when_waiting
        if patience is None or next_due - scheduling.clock() <= patience:
            return True
        if not self._said_waiting:
            self._said_waiting = True
            due = datetime.fromtimestamp(next_due, scheduling.local_time().tzinfo)
            _logger.info("requests wait until %s; run it again then", f"{due:%Y-%m-%d %H:%M:%S %Z}")
        return False

    def looks_on(self) -> bool:
        """Returns whether a spider with nothing to do may still get something. What was given up is offered
        again once in each run. After that the queue is asked once for what others have pushed."""
        if self._last_round is None:
            self._last_round = asyncio.ensure_future(self._offer_given_up())
        if not self._last_round.done():
            return True
        if not self.has_looked:
            self.has_looked = True
            self._worker.look_again()
            return True
        return False

    async def _offer_given_up(self) -> None:
        """Offers again requests that were given up because their processes ended: most were never made.

        They come last and have one attempt, so that a request that kills its process does not stop the
        others. Only the worker that has worked for longest offers them, or each worker would. Ends the crawl
        if the queue cannot go on.
        """
        segment = self._segment
        try:
            workers = await self._queue.workers()
            if workers is None or _is_own(workers[0]):
                for failure in await self._queue.failures():
                    if failure.segment == segment and is_unanswered(failure.reason):
                        body, attempts = failure.body, failure.attempts
                        self._worker.push(Entry(body, segment, None, failure.priority, attempt=attempts))
                        self.take_up(failure)
        except Exception as error:  # noqa: BLE001 - or the spider would close as if nothing was left
            self._listener.end(as_queue_error(error))
        self._listener.wake()

    # What a harvest asks

    def seeded(self) -> None:
        """Tells that all first requests are enqueued."""
        self._worker.seeded()

    @property
    def has_only_later(self) -> bool:
        """Whether nothing is left but requests for later."""
        answer = self._worker.answer
        return self._worker.is_empty and answer.next_due is not None and not answer.leased_elsewhere

    @property
    def is_ended(self) -> bool:
        """Whether another worker has ended the work."""
        return self.ending == "ended"

    async def may_end(self) -> bool:
        """Returns whether this worker is still the one that is to end the work."""
        if self._shared is None:
            return True
        self.ending = await self._shared.ending()
        return self.ending == "yours"

    async def ended(self) -> None:
        """Tells the other workers that the end of the work is written, so that they end, too."""
        if self._shared is not None:
            await self._shared.ended()

    async def given_up(self) -> list[tuple[Failure, Any]]:
        """Returns the failures of the segment, each with its request."""
        found: list[tuple[Failure, Any]] = []
        for failure in await self._queue.failures():
            if failure.segment == self._segment:
                with contextlib.suppress(CodecError):
                    found.append((failure, self._writer.read(failure.body, failure.attempts)))
        return found

    def take_up(self, failure: Failure) -> None:
        """Removes a failure from the failure list, because its request is enqueued again."""
        self._worker.take_up(failure.id)

    async def _watch(self) -> None:
        try:
            while self._scheduling.stay or self.ending != "ended":
                await asyncio.sleep(POLL)
                if self._scheduling.stay or self._worker.is_empty:
                    await self._look()
        except Exception as error:  # noqa: BLE001 - or nobody would notice the end of the work any more
            self._listener.end(as_queue_error(error))

    async def _look(self) -> None:
        if self._shared is not None and self._awaits_end and not self._worker.holds_some:
            self.ending = await self._shared.ending()
            if self.ending != "goes on":
                self._listener.wake()
        if self.ending != "ended":
            self._worker.look_again()


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
            f"the harvest of {earlier[0].segment} is still under way at {_named(earlier)}; nothing was asked"
            f" for; run again for {segment} when it has ended, or stop it; a worker that was killed is"
            " forgotten when its leases expire"
        )
    if is_fresh and others:
        raise QueueError(
            f"a harvest cannot start afresh while others work on it: {_named(others)}; nothing was changed;"
            " let them end or stop them, or start without -a fresh=1 to work with them"
        )


def _is_own(worker: Worker) -> bool:
    """Returns whether this is our own worker, or one with the same pid that was killed in this container."""
    return worker.host == socket.gethostname() and worker.pid == os.getpid()


def _named(workers: Sequence[Worker]) -> str:
    return ", ".join(f"{worker.host} (pid {worker.pid})" for worker in workers)
