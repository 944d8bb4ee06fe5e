"""A worker of a queue in memory, both watched."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from tests.middlewares.making import run_jumping
from tests.scheduler.driving import QueueAtOnce, entry
from tileharvest.queue.port import Changes
from tileharvest.scheduler.worker import QueueWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

    from tileharvest.errors import QueueError
    from tileharvest.queue.port import Exchange, Lease


class WatchedQueue(QueueAtOnce):
    """Remembers what it was told, and can be made to wait or to fail."""

    def __init__(self) -> None:
        super().__init__(minus_share=0)
        self.told: list[Changes] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.error: QueueError | None = None
        self.starts: dict[str, float] = {}
        self.adds: dict[str, Any] = {}
        self.under_way = self.most_under_way = 0
        self.asked = asyncio.Event()
        self.alive = asyncio.Event()

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        self.told.append(changes)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.asked.set()
        await self.may_answer.wait()
        self.under_way -= 1
        if self.error is not None:
            raise self.error
        answer = await super().exchange(changes, wanted, now)
        leases = [
            msgspec.structs.replace(one, start=self.starts.get(one.body.decode(), 0.0))
            for one in answer.leases
        ]
        return replace(answer, leases=leases, **self.adds)

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        if self.error is not None:
            raise self.error
        self.alive.set()
        return await super().extend(leases, now)


class Side:
    """A worker of such a queue, and what it tells its listener."""

    def __init__(self, ahead: int, lease_seconds: float, **options: Any) -> None:
        self.queue = WatchedQueue()
        self.now = 0.0
        self.answers = 0
        self.errors: list[QueueError] = []
        self.in_flight = self.taken = 0
        self.may_start = True
        self._heard = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self.worker = QueueWorker(
            self.queue, self, ahead=ahead, lease_seconds=lease_seconds, clock=lambda: self.now, **options
        )

    def exchanged(self, answer: Exchange) -> None:
        self.wake()

    def wake(self) -> None:
        self.answers += 1
        self._notify()

    def end(self, error: QueueError) -> None:
        self.errors.append(error)
        self._notify()

    async def hear(self, answers: int = 0, errors: int = 0) -> None:
        """Wait until there were so many."""
        async with asyncio.timeout(5), self._heard:
            await self._heard.wait_for(lambda: self.answers >= answers and len(self.errors) >= errors)

    async def beat(self) -> None:
        """Wait for a sign of life."""
        async with asyncio.timeout(5):
            self.queue.alive.clear()
            await self.queue.alive.wait()

    def take(self, most: int = 100) -> list[Lease]:
        leases = self.worker.next_leases(most)
        self.worker.lease_more()
        return leases

    def bodies(self, most: int = 100) -> list[str]:
        return [lease.body.decode() for lease in self.take(most)]

    def _notify(self) -> None:
        async def notify() -> None:
            async with self._heard:
                self._heard.notify_all()

        task = asyncio.ensure_future(notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def started(
    *bodies: str, ahead: int = 4, lease_seconds: float = 100.0, **options: Any
) -> AsyncIterator[Side]:
    """Starts a worker whose queue has these requests. The block begins after the first exchange."""
    side = Side(ahead, lease_seconds, **options)
    await side.queue.open(0.0)
    await QueueAtOnce.exchange(side.queue, Changes([entry(body) for body in bodies]), 0, 0.0)
    side.worker.start()
    await side.hear(1)
    yield side


def run(test: Coroutine[Any, Any, None]) -> None:
    run_jumping(test)
