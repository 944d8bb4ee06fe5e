"""What a crawl waits for, and until when."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

WORTH_A_WORD: Final = 5.0
"""Seconds from which on a person wonders why nothing happens."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Times are seconds on the clock of the event loop."""

    what: str
    """As it stands behind `waiting for`: `http://map.example.net/robots.txt to answer`."""
    since: float
    until: float | None = None
    """When it ends at the latest. None where nobody knows."""

    def is_long(self, now: float) -> bool:
        """Returns whether it has held for so long that a person should hear of it."""
        return now - self.since >= WORTH_A_WORD

    def until_in_words(self, now: float, moment: datetime) -> str | None:
        """Returns until when it holds at the latest, such as `17:20:31 UTC`, with the day where that is not
        today. `moment` is the present time in the zone of whoever reads it."""
        if self.until is None:
            return None
        end = moment + timedelta(seconds=max(0.0, self.until - now))
        return f"{end:%H:%M:%S %Z}" if end.date() == moment.date() else f"{end:%Y-%m-%d %H:%M:%S %Z}"

    def in_words(self, now: float, moment: datetime) -> str:
        """Returns the line that tells it."""
        return waiting_for(self.what, self.until_in_words(now, moment))


def waiting_for(what: str, until: str | None) -> str:
    """Returns the line that tells for what, and until when, in words."""
    return f"waiting for {what}" + (f", until {until}" if until else "")


@contextmanager
def noted(waits: list[Wait], what: str, seconds: float | None = None) -> Iterator[None]:
    """Has the wait among these while the block runs, which is for so many seconds where that is known."""
    now = asyncio.get_running_loop().time()
    wait = Wait(what, now, None if seconds is None else now + seconds)
    waits.append(wait)
    try:
        yield
    finally:
        waits.remove(wait)
