"""A host that asks to be left alone: what one worker has heard, all of them keep."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tileharvest.errors import QueueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.scheduler.pacing import PacedQueue


class Resting:
    """Tells a queue of rests while its worker goes on. `failed` is called when the queue cannot go on."""

    def __init__(self, queue: PacedQueue, failed: Callable[[QueueError], None]) -> None:
        self._queue = queue
        self._failed = failed
        self._telling: set[asyncio.Task[None]] = set()

    def rest(self, host: str, seconds: float) -> None:
        """As `PacedQueue.rest`, soon."""
        task = asyncio.ensure_future(self._tell(host, seconds))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def end(self) -> None:
        """Returns when the queue knows of all of them."""
        if self._telling:
            await asyncio.wait(self._telling)

    async def _tell(self, host: str, seconds: float) -> None:
        try:
            await self._queue.rest(host, seconds)
        except QueueError as error:
            self._failed(error)
