"""The end of a task that would never end by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from asyncio import Task

_MOMENT: Final = 0.05
"""Seconds between two cancellations."""


async def cancel(task: Task[Any]) -> None:
    """Cancels the task again and again, and returns when it has ended. A call that it awaits may lose a
    cancellation: redis-py 8.1 takes one for a timeout while it reads from a new subscription."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_MOMENT)
