"""A queue in memory that keeps a pace, for tests of what steers a crawl; its clock stands still."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.scheduler.driving import QueueAtOnce
from tileharvest.queue.pace import Granted
from tileharvest.queue.paced import Paced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tileharvest.queue.pace import Amount


class HeldByOthers:
    """A purse that has nothing left but what other workers may return."""

    async def grant(self, wanted: Amount, returned: Amount) -> Granted:
        return Granted(False, others_hold=True)


@asynccontextmanager
async def paced_memory() -> AsyncIterator[Paced]:
    queue = Paced(QueueAtOnce(minus_share=0), None, "world", clock=lambda: 0.0, random=lambda: 0.5)
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
