"""Group commit: results share transactions, so that one flush of the disk serves many tiles."""

from __future__ import annotations

import asyncio
from collections import deque
from copy import copy
from math import ceil
from typing import TYPE_CHECKING, Final

from tileharvest.errors import HistoryError
from tileharvest.history.costs import NO_COST
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.schema import FINISHED

if TYPE_CHECKING:
    from tileharvest.history.costs import Cost, Traffic
    from tileharvest.history.harvests import HarvestRecord
    from tileharvest.tiles.results import TileResult

LINGER: Final = 0.05
"""Seconds that the first result of a batch waits for others. A flush of the disk takes 1 to 20 ms, so flushes
take at most a third of the time."""

LONGEST: Final = 4.0
"""The most seconds that a first result waits when few results come. A transaction costs the same for one
result as for several, so a longer wait saves transactions. After a kill the results of this time are asked
for again."""

_FEW: Final = 8
"""If a transaction has fewer results than this, the next one waits twice as long for others."""

TICK: Final = 0.25
"""Seconds. A wait that is at least as long as this ends at a multiple of it, by the clock of the event loop.
Many harvests of a process then wake the writer's thread together. To wake it costs 0.1 ms of CPU."""

MOST: Final = 2000
"""The results with which a transaction begins at once. Those that came in the same turn of the event loop go
with them. They take about 20 ms of CPU, while other programs wait to write."""

MOST_BYTES: Final = 2_000_000
"""The bytes of images with which a transaction begins at once. Scrapy asks for nothing more while 5 MB of
answers are not yet kept (SCRAPER_SLOT_MAX_ACTIVE_SIZE)."""


def at_tick(moment: float) -> float:
    """Returns the first multiple of TICK that is not before the moment. Both are seconds of an event loop."""
    return ceil(moment / TICK) * TICK


class _Batch(asyncio.Future[BaseException | None]):
    """Results that share a transaction, and the future of that transaction.

    All who have given a result wait for this future. Its result is None once the batch is durable, else the
    error that kept it from that. It cannot be cancelled: if one who waits is cancelled, the others still
    wait.
    """

    def __init__(self) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.results: list[TileResult] = []
        self.bytes = 0
        """The bytes of the images of its results."""
        self.is_due = False
        """Whether its transaction may begin, because it has waited long enough or is full."""

    def cancel(self, msg: object = None) -> bool:
        return False


class GroupCommit:
    """Records the results of one harvest by its history's writer. Used from one asyncio event loop.

    A transaction begins when the first result of a batch has waited for `linger` seconds, when `most` results
    or MOST_BYTES of images have come, or on `flush`. If few results come, because the site is asked slowly,
    each batch waits twice as long as the one before, up to LONGEST. While a transaction runs, the next batch
    gathers.

    After a failure nothing more is recorded, and every later call raises the same error: a harvest whose
    results are missing in the history must stop. One failure is harmless: that other workers have finished
    the harvest before its last results came.
    """

    def __init__(
        self,
        harvest: HarvestRecord,
        traffic: Traffic,
        linger: float = LINGER,
        most: int = MOST,
    ) -> None:
        """`traffic` counts what the process spends."""
        if linger < 0 or most < 1:
            raise ValueError(f"linger {linger} s and at most {most} results make no batch")
        self._recording, self._writer = harvest.recording, harvest.history.writer
        self._traffic = traffic
        self._shortest = self._linger = linger
        self._most = most
        self._batches: deque[_Batch] = deque()
        self._committing: _Batch | None = None
        self._failure: BaseException | None = None
        self._unrecorded = NO_COST
        """The cost that was spent and is in no transaction yet."""
        self._closing = False
        self._closed = False

    async def record(self, result: TileResult) -> None:
        """Returns when the transaction that holds the result is durable. Raises HistoryError if it failed.

        A cancelled call takes effect all the same.
        """
        batch = self.add(result)
        batch.bytes += len(result.body or b"")
        if batch.bytes >= MOST_BYTES:
            self._make_due(batch)
        failure = await batch
        if failure is not None:
            raise _again(failure)

    def add(self, *results: TileResult) -> _Batch:
        """Adds the results to the batch that gathers, and returns the future of its transaction.

        The future's result is None once the transaction is durable, else the error. To cancel it does
        nothing. Raises HistoryError after an earlier failure."""
        batch = self._gathering()
        batch.results += results
        if len(batch.results) >= self._most:
            self._make_due(batch)
        return batch

    async def flush(self) -> None:
        """Returns when all results and costs so far are durable. Raises HistoryError if they are not.

        If nothing but time was spent, there is no transaction: the time is recorded with the next results, or
        by `close`. After `close` this does nothing.
        """
        if self._closed and self._failure is None:
            return
        batch = self._gathering()
        self._make_due(batch)
        failure = await batch
        if failure is not None:
            raise _again(failure)

    def record_cost(self) -> None:
        """Begins to record the cost so far, together with the results that wait."""
        if self._failure is None and not self._closed:
            self._make_due(self._gathering())

    @property
    def is_recording(self) -> bool:
        """Whether any result is not durable yet."""
        return self._committing is not None or bool(self._batches)

    def hurry(self) -> None:
        """Makes the results that wait due, because no others are on the way."""
        if self._batches:
            self._make_due(self._batches[-1])

    async def close(self) -> None:
        """Flushes, and waits until nothing is being recorded, even if the flush raises. Later results are
        refused. It may be called twice. Raises HistoryError."""
        if self._closed:
            return
        self._closing = True
        try:
            await self.flush()
        finally:
            # If results came after the harvest's end, the flush has failed, but their cost is still recorded.
            while self.is_recording:
                self.hurry()
                await (self._committing or self._batches[-1])
            self._closed = True

    def _gathering(self) -> _Batch:
        """Returns the batch that takes results now. If there is none, begins a new one."""
        if self._failure is not None:
            raise _again(self._failure)
        if self._closed:
            raise RuntimeError("nothing can be recorded after close")
        if self._batches and len(self._batches[-1].results) < self._most:
            return self._batches[-1]
        batch, loop = _Batch(), asyncio.get_running_loop()
        self._batches.append(batch)
        due = loop.time() + self._linger
        loop.call_at(due if self._linger < TICK else at_tick(due), self._make_due, batch)
        return batch

    def _make_due(self, batch: _Batch) -> None:
        batch.is_due = True
        self._commit_next()

    def _commit_next(self) -> None:
        """Hands the oldest batch to the writer thread if that is idle and the batch is due."""
        if self._committing is not None or not self._batches or not self._batches[0].is_due:
            return
        self._committing = batch = self._batches.popleft()
        try:
            self._unrecorded += self._traffic.take()
        except Exception as error:  # noqa: BLE001 - it is raised where the results are waited for
            self._committed(batch, error)
            return
        if not (batch.results or self._is_worth_recording()):
            self._committed(batch, None)
            return
        is_worth_more = len(batch.results) < _FEW
        self._linger = (
            min(2 * self._linger, max(LONGEST, self._shortest))
            if is_worth_more
            else max(self._linger / 2, self._shortest)
        )
        cost, self._unrecorded = self._unrecorded, NO_COST
        self._submit(batch, cost)

    def _submit(self, batch: _Batch, cost: Cost) -> None:
        def done(job: asyncio.Future[None]) -> None:
            failure = job.exception()
            if failure is not None:
                # If the failure does not stop the harvest, the next transaction records the cost.
                self._unrecorded += cost
            self._committed(batch, failure)

        # A bare future and no task, because asyncio.run cancels tasks at its end. A commit must run through.
        job = asyncio.wrap_future(self._writer.submit(self._recording(batch.results, cost)))
        job.add_done_callback(done)

    def _is_worth_recording(self) -> bool:
        return self._unrecorded != NO_COST if self._closing else not self._unrecorded.is_time_alone

    def _committed(self, batch: _Batch, failure: BaseException | None) -> None:
        self._committing = None
        if failure is None:
            self._traffic.recorded()
        elif _is_late(failure):
            # The cost must survive a kill, although the results came too late.
            self.record_cost()
        else:
            self._failure = failure
            # Requests must not wait for a transaction that never comes. The next result raises the failure.
            self._traffic.settle()
        batch.set_result(failure)
        if self._failure is None:
            self._commit_next()
            return
        while self._batches:
            self._batches.popleft().set_result(failure)


def _is_late(failure: BaseException) -> bool:
    """Returns whether the failure says that others have finished the harvest. The harvest lacks nothing then,
    and costs are still added to it."""
    return isinstance(failure, HarvestEndedError) and failure.reason == FINISHED


def _again(failure: BaseException) -> BaseException:
    """Returns a copy of the error for each caller, because a traceback grows each time an error is raised."""
    if not isinstance(failure, HistoryError):
        return failure
    error = copy(failure)
    error.__cause__ = failure
    return error
