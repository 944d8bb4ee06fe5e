"""Waits: what a crawl waits for, why nothing may start, and until when."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

WORTH_A_WORD: Final = 5.0
"""Seconds after which a person wonders why nothing happens."""


class HeldError(Exception):
    """Nothing may start now."""


class HoldReason(StrEnum):
    """Why requests are held back."""

    PAUSED = "paused"
    """A person has paused the map."""
    QUIET = "quiet"
    """These are the map's quiet hours."""
    DOWN = "down"
    """The host does not answer."""
    RESTING = "resting"
    """The host has asked to be left alone for a while."""
    SPENT = "spent"
    """A budget is spent; the crawl is about to end."""


class Hold(NamedTuple):
    """The reason for which nothing may start."""

    reason: HoldReason
    until: float | None = None
    """When it ends, in seconds since 1970. None if nobody knows."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Something for which a crawl waits. Times are seconds on the clock of the event loop."""

    what: str
    """The words behind `waiting for`, such as `http://map.example.net/robots.txt to answer`."""
    since: float
    until: float | None = None
    """When the wait ends at the latest. None if nobody knows."""

    def is_long(self, now: float) -> bool:
        """Returns whether the wait has lasted long enough for a person to hear of it."""
        return now - self.since >= WORTH_A_WORD

    def until_in_words(self, now: float, moment: datetime) -> str | None:
        """Returns until when the wait lasts at the latest, such as `17:20:31 UTC`, with the day unless that
        is today. `moment` is the present time in the zone of the reader."""
        if self.until is None:
            return None
        end = moment + timedelta(seconds=max(0.0, self.until - now))
        return f"{end:%H:%M:%S %Z}" if end.date() == moment.date() else f"{end:%Y-%m-%d %H:%M:%S %Z}"

    def in_words(self, now: float, moment: datetime) -> str:
        """Returns the line for a person."""
        return waiting_for(self.what, self.until_in_words(now, moment))


def waiting_for(what: str, until: str | None) -> str:
    """Returns the line for a person that says for what a crawl waits, and until when. `until` is None if
    nobody knows."""
    return f"waiting for {what}" + (f", until {until}" if until else "; no end is known")


@contextmanager
def noted(
    waits: list[Wait], what: str, seconds: float | None = None, *, since: float | None = None
) -> Iterator[None]:
    """Adds a wait to these while the block runs. `seconds` is the length of the wait from now on, if it is
    known. `since` is its beginning, unless that is now."""
    now = asyncio.get_running_loop().time()
    wait = Wait(what, now if since is None else since, None if seconds is None else now + seconds)
    waits.append(wait)
    try:
        yield
    finally:
        waits.remove(wait)
