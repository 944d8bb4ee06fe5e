"""Group commit: results share transactions, so that one disk flush serves many tiles."""

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
from tileharvest.history.unnamed_images import LeavingImageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from tileharvest.history.costs import Cost, Traffic
    from tileharvest.history.harvests import HarvestRecord
    from tileharvest.tiles.results import TileResult

LINGER: Final = 0.05
"""Seconds that a first result waits for others. A result takes at least as long as the site needs to answer.
A flush takes 1 to 20 ms, so at most a third of the time goes into flushes."""

LONGEST: Final = 2.0
"""Seconds that a first result waits where few come: what each transaction costs does not depend on how many
results it has. A kill makes a harvest ask again for what came in this time."""

_FEW: Final = 8
"""Results in a transaction below which the next one waits longer for others."""

TICK: Final = 0.25
"""Seconds. What may wait for longer begins at a multiple of them, by the clock of the event loop. So a thread
is woken once for many harvests of a process, which costs 0.1 ms of CPU."""

_ATTEMPTS: Final = 10
"""At a transaction whose images are removed at the same time. The second succeeds, but for more clean-ups."""

MOST: Final = 1000
"""Most results in one transaction: about 10 ms of CPU, during which other programs wait to write."""


def at_tick(moment: float) -> float:
    """Returns the first tick that is not before the moment."""
    return ceil(moment / TICK) * TICK


class _Batch(asyncio.Future[BaseException | None]):
    """Results, and the future of their transaction, for which all wait who have given one. It becomes None
    once the batch is durable, else why it is not.

    To cancel one who waits would cancel this future, and with it all others. The batch is committed soon in
    any case, so whoever is cancelled learns of it then.
    """

    def __init__(self) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.results: list[TileResult] = []
        self.is_due = False
        """Whether it has waited long enough."""

    def cancel(self, msg: object = None) -> bool:
        return False


class GroupCommit:
    """Records the results of one harvest by its history's writer. Used from one asyncio event loop.

    A transaction begins when the first result has waited for `linger` seconds, when `most` results have come,
    or on `flush`. Where few come, as a site is asked slowly, it waits twice as long each time, up to LONGEST.
    While it runs the next batch gathers. After a failure nothing more is recorded, and every
    later call raises the same error: a harvest whose results are missing in the history must stop. Only
    results that come after other workers have finished the harvest stop nothing.
    """

    def __init__(
        self,
        harvest: HarvestRecord,
        traffic: Traffic,
        linger: float = LINGER,
        most: int = MOST,
        *,
        put_again: Callable[[Collection[str], Sequence[TileResult]], Awaitable[None]] | None = None,
    ) -> None:
        """`traffic` counts what is spent. `put_again` stores images by their names, which are among these
        results, once more: a clean-up removes them. Without it that is a failure."""
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
        """What was spent, and is in no transaction yet."""
        self._put_again = put_again
        self._restoring: asyncio.Future[None] | None = None
        """Kept, as the event loop does not keep it."""
        self._closing = False
        self._closed = False

    async def record(self, result: TileResult) -> None:
        """Returns when the transaction that holds the result is durable. Raises HistoryError if it failed.

        A cancelled call takes effect all the same.
        """
        failure = await self.add(result)
        if failure is not None:
            raise _again(failure)

    def add(self, result: TileResult) -> asyncio.Future[BaseException | None]:
        """Lets the result be recorded. Returns the transaction, which many share: it becomes None once it is
        durable, else why it is not. To cancel it does nothing. Raises as `record`."""
        batch = self._gathering()
        batch.results.append(result)
        if len(batch.results) >= self._most:
            self._make_due(batch)
        return batch

    async def flush(self) -> None:
        """Returns when everything given so far is durable, the cost included. Raises as `record`.

        Where nothing but time was spent there is no transaction: the time waits for results, or for `close`.
        After `close` there is nothing to do.
        """
        if self._closed and self._failure is None:
            return
        batch = self._gathering()
        self._make_due(batch)
        failure = await batch
        if failure is not None:
            raise _again(failure)

    def record_cost(self) -> None:
        """Begins to record what was spent, with the results that wait."""
        if self._failure is None and not self._closed:
            self._make_due(self._gathering())

    @property
    def is_recording(self) -> bool:
        """Whether results wait for a transaction, or for its end."""
        return self._committing is not None or bool(self._batches)

    def hurry(self) -> None:
        """Lets what has come wait for no more of it, as nothing else is on the way."""
        if self._batches:
            self._make_due(self._batches[-1])

    async def close(self) -> None:
        """Flushes. Nothing is being recorded then, and nothing can be, even if the flush raises. It may be
        called twice."""
        if self._closed:
            return
        self._closing = True
        try:
            await self.flush()
        finally:
            # Where results came too late the flush has failed, and what they cost is still being recorded.
            while self.is_recording:
                self.hurry()
                await (self._committing or self._batches[-1])
            self._closed = True

    def _gathering(self) -> _Batch:
        """Returns the batch that takes results now. If there is none, a new one begins to wait."""
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

    def _submit(self, batch: _Batch, cost: Cost, attempt: int = 1) -> None:
        def done(job: asyncio.Future[None]) -> None:
            failure = job.exception()
            if isinstance(failure, LeavingImageError) and self._put_again and attempt < _ATTEMPTS:
                self._restoring = asyncio.ensure_future(self._restore(batch, cost, attempt, failure))
            else:
                if failure is not None:
                    # It was spent all the same, and where the failure stops nothing the next one records it.
                    self._unrecorded += cost
                self._committed(batch, failure)

        # A bare future, no task: at its end asyncio.run cancels tasks, and a commit must run through.
        job = asyncio.wrap_future(self._writer.submit(self._recording(batch.results, cost)))
        job.add_done_callback(done)

    async def _restore(self, batch: _Batch, cost: Cost, attempt: int, failure: LeavingImageError) -> None:
        """Has images that a clean-up removes at this moment put again, and records the batch anew."""
        assert self._put_again is not None
        try:
            await self._put_again(failure.names, batch.results)
        except BaseException as error:  # noqa: BLE001 - it is raised where the results are waited for
            self._committed(batch, error)
        else:
            self._submit(batch, cost, attempt + 1)

    def _is_worth_recording(self) -> bool:
        return self._unrecorded != NO_COST if self._closing else not self._unrecorded.is_time_alone

    def _committed(self, batch: _Batch, failure: BaseException | None) -> None:
        self._committing = None
        if failure is None:
            self._traffic.recorded()
        elif _is_late(failure):
            # What was spent outlives a kill all the same.
            self.record_cost()
        else:
            self._failure = failure
            # Nobody but who brings a result learns of it.
            self._traffic.settle()
        batch.set_result(failure)
        if self._failure is None:
            self._commit_next()
            return
        while self._batches:
            self._batches.popleft().set_result(failure)


def _is_late(failure: BaseException) -> bool:
    """Says whether others have finished the harvest: it misses nothing then, and costs still add up."""
    return isinstance(failure, HarvestEndedError) and failure.reason == FINISHED


def _again(failure: BaseException) -> BaseException:
    """Returns an error of its own for each who waits, because a traceback grows wherever it is raised."""
    if not isinstance(failure, HistoryError):
        return failure
    error = copy(failure)
    error.__cause__ = failure
    return error
