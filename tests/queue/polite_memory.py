"""A queue in memory that keeps to rate limits and budgets, and whose clock stands still."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.scheduler.driving import QueueAtOnce
from tileharvest.history.costs import Traffic
from tileharvest.queue.polite_queue import PoliteQueue
from tileharvest.queue.shared_states import StateFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@asynccontextmanager
async def polite_memory() -> AsyncIterator[PoliteQueue]:
    inside, hosts = QueueAtOnce(minus_share=0), StateFile()
    queue = PoliteQueue(inside, hosts, "world", Traffic(), clock=lambda: 0.0, random=lambda: 0.5)
    await queue.open(0.0)
    try:
        yield queue
    finally:
        await queue.close()


async def comes_true(holds: Callable[[], bool]) -> None:
    """Raises TimeoutError when it does not come to hold."""
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - what is looked at knows of no event
            await asyncio.sleep(0.001)
