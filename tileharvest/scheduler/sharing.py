"""A worker's part in a fleet: with whom it may work, when there is work, and when the work has ended."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Final

from tileharvest.errors import QueueError
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.fleet import Ending
from tileharvest.scheduler.exchanging import as_queue_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileharvest.queue.fleet import SharedQueue, Worker
    from tileharvest.scheduler.exchanging import Exchanging

POLL: Final = 1.0
"""Seconds after which a worker with nothing to do looks again, although nobody has woken it: for leases that
expired, and for messages that were missed."""

HEARTBEAT: Final = 5.0
"""Seconds between two signs of life of a worker that has nothing else to say."""


class Sharing:
    """Looks after a shared queue while this worker has nothing to do.

    `wake` is called when `ending` has changed; `failed` once, when the queue cannot go on.
    """

    def __init__(
        self,
        queue: SharedQueue,
        exchanging: Exchanging,
        segment: str,
        *,
        has_joined: bool,
        wake: Callable[[], None],
        failed: Callable[[QueueError], None],
    ) -> None:
        self._queue = queue
        self._exchanging = exchanging
        self._segment = segment
        self.has_joined = has_joined
        """Whether it works for a harvest, whose end is told. An ordinary spider ends when nothing is left."""
        self._wake = wake
        self._failed = failed
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.ending = Ending.GOES_ON
        """How far the work is, as last heard."""

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._watch())

    async def stop(self) -> None:
        if self._task is not None:
            await cancel(self._task)

    def exchanged(self) -> None:
        """To be called after each exchange."""
        if self._exchanging.is_empty:
            self._idle.set()

    def goes_on(self) -> None:
        """Something is pushed: it is not the end yet."""
        self.ending = Ending.GOES_ON

    def surely_pushed(self, segment: str, fingerprint: bytes | None) -> bool:
        """As `SharedQueue.surely_pushed`; what has no fingerprint never was."""
        return fingerprint is not None and self._queue.surely_pushed(segment, fingerprint)

    async def may_end(self) -> bool:
        """Whether it is still this worker's to end the work, which it was told some time ago."""
        self.ending = await self._queue.ending(self._segment)
        return self.ending is Ending.YOURS

    async def _watch(self) -> None:
        try:
            while self.ending is not Ending.ENDED:
                await self._idle.wait()
                self._idle.clear()
                if self._exchanging.is_empty:
                    await self._look()
        except Exception as error:  # noqa: BLE001 - or nobody would notice the end of the work any more
            self._failed(as_queue_error(error))

    async def _look(self) -> None:
        if self.has_joined and not self._exchanging.holds_some:
            self.ending = await self._queue.ending(self._segment)
            if self.ending is not Ending.GOES_ON:
                self._wake()
            if self.ending is Ending.ENDED:
                return
        await self._queue.wait_for_work(POLL)
        self._exchanging.look_again()


def refuse_company(
    workers: Sequence[Worker], segment: str, *, silent: float, is_fresh: bool, is_history_local: bool
) -> None:
    """Raises QueueError where this worker must not work beside the others that are alive: for another
    segment, afresh, or on a history that is a file of another machine's. Who was not heard of for `silent`
    seconds is in nobody's way."""
    now = max((worker.heartbeat for worker in workers), default=0.0)
    others = [one for one in workers if not _is_own(one) and now - one.heartbeat <= silent]
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
            f" for; run again for {segment} when it has ended, or stop it"
        )
    if is_fresh and others:
        raise QueueError(
            f"a harvest cannot start afresh while others work on it: {_named(others)}; nothing was changed;"
            " let them end or stop them, or start without -a fresh=1 to work with them"
        )


def _is_own(worker: Worker) -> bool:
    """Also one that was killed in this very container, whose name and number this one has now."""
    return worker.host == socket.gethostname() and worker.pid == os.getpid()


def _named(workers: Sequence[Worker]) -> str:
    return ", ".join(f"{worker.host} (pid {worker.pid})" for worker in workers)
