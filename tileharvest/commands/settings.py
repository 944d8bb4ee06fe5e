"""What commands need of the settings, and of the history and the queues that these name."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from scrapy.settings import SETTINGS_PRIORITIES

from tileharvest.errors import ConfigurationError
from tileharvest.history.settings import open_history_if_any
from tileharvest.maps.settings import setting
from tileharvest.queue.settings import open_beside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.settings import BaseSettings

    from tileharvest.history.database import History
    from tileharvest.queue.port import RequestQueue

Told = TypeVar("Told")


def quieten(settings: BaseSettings, level: str) -> None:
    """Log from this level on only, in short lines, unless the user has chosen a level for this run."""
    if (settings.getpriority("LOG_LEVEL") or 0) < SETTINGS_PRIORITIES["cmdline"]:
        settings.set("LOG_LEVEL", level, priority="cmdline")
        settings.set("LOG_FORMAT", "%(levelname)s: %(message)s", priority="cmdline")


def ask_history(settings: BaseSettings, question: Callable[[History], Told]) -> Told | None:
    """Returns what the history says, or None where there is none yet. Raises HistoryError."""
    history = open_history_if_any(settings)
    if history is None:
        return None
    with history:
        return question(history)


def ask_queue(
    settings: BaseSettings, map_name: str, question: Callable[[RequestQueue], Awaitable[Told]]
) -> Told:
    """Returns what the map's queue says. It is opened beside whoever works on it, and made if there is none.

    Do not call it from within an event loop. Raises QueueError.
    """

    async def ask() -> Told:
        async with open_beside(settings, map_name) as queue:
            return await question(queue)

    return asyncio.run(ask())


def progress_interval(settings: BaseSettings) -> float:
    """Returns the seconds between two lines of progress.

    Raises ConfigurationError for what would write without end.
    """
    value = setting(settings, "PROGRESS_INTERVAL")
    with suppress(TypeError, ValueError):
        if float(value) > 0:
            return float(value)
    raise ConfigurationError(f"PROGRESS_INTERVAL {value!r} cannot be: write seconds above 0, such as 60")
