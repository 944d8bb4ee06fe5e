"""The end of a task that would never end by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from asyncio import Task

_MOMENT: Final = 0.05
"""Seconds between two cancellations."""


async def cancel(task: Task[Any]) -> None:
    """Returns when the task has ended.

    It is cancelled as often as that takes, as what it awaits may lose a cancellation: redis-py 8.1 answers
    some of the calls that are cancelled under way, and takes a cancellation for a timeout while it reads from
    a new subscription.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_MOMENT)
