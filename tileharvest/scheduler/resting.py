"""A host that asks to be left alone: what one worker has heard, all of them keep."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from tileharvest.errors import QueueError
from tileharvest.scheduler.turn import wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.queue.pace import PacedQueue

_logger = logging.getLogger(__name__)

_WORTH_A_WORD: Final = 10.0
"""Seconds from which on a person wonders why nothing happens."""


class Resting:
    """Tells a queue of rests while its worker goes on. `failed` is called when the queue cannot go on."""

    def __init__(self, queue: PacedQueue, failed: Callable[[QueueError], None]) -> None:
        self._queue = queue
        self._failed = failed
        self._telling: set[asyncio.Task[None]] = set()
        self._said: dict[str, float] = {}
        """Until when each host rests as was said last, on the event loop's clock."""

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
            left = await self._queue.rest(host, seconds)
        except QueueError as error:
            self._failed(error)
            return
        # Once for all the requests that were on the way together.
        if asyncio.get_running_loop().time() >= self._said.get(host, float("-inf")):
            self._said[host] = asyncio.get_running_loop().time() + left
            _say(host, left)


async def sit_out(queue: PacedQueue, host: str, over: asyncio.Event) -> bool:
    """Wait until the host may be asked again, or it is over. Whether there was anything to wait for: then
    another rest may have begun. Raises QueueError."""
    left = await queue.rest(host, 0.0)
    if left > 0:
        _say(host, left)
        await wait(left, over)
    return left > 0


def _say(host: str, seconds: float) -> None:
    if seconds >= _WORTH_A_WORD:
        _logger.warning(
            "%s has asked to be left alone: nothing is asked of it for %.0f s, then the harvest goes on",
            host,
            seconds,
        )
