"""Waits: what a crawl waits for, why nothing may start, and until when."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

WORTH_A_WORD: Final = 5.0
"""Seconds after which a person wonders why nothing happens."""


class HeldError(Exception):
    """Nothing may start now."""


class HoldReason(StrEnum):
    """Why requests are held back: a person has paused the map, these are its quiet hours, its host does not
    answer, or has asked to be left alone for a while, or the crawl is about to end."""

    PAUSED = "paused"
    QUIET = "quiet"
    DOWN = "down"
    RESTING = "resting"
    ENDING = "ending"


class Hold(NamedTuple):
    """The reason for which nothing may start."""

    reason: HoldReason
    until: float | None = None
    """When it ends, in seconds since 1970. None if nobody knows."""


class Wait(NamedTuple):
    """Something for which a crawl waits."""

    what: str
    """The words behind `waiting for`, such as `http://map.example.net/robots.txt to answer`."""
    until: float | None = None
    """When the wait ends at the latest, in seconds since 1970. None if nobody knows."""

    def in_words(self, moment: datetime) -> str:
        """Returns the line for a person, such as `waiting for a site to answer, until 17:20:31 UTC`, with the
        day unless that is today. `moment` is the present time in the zone of the reader."""
        if self.until is None:
            return f"waiting for {self.what}; no end is known"
        end = max(moment, datetime.fromtimestamp(self.until, moment.tzinfo))
        day = "" if end.date() == moment.date() else f"{end:%Y-%m-%d} "
        return f"waiting for {self.what}, until {day}{end:%H:%M:%S %Z}"


@contextmanager
def noted(waits: list[Wait], what: str, seconds: float | None = None) -> Iterator[None]:
    """Adds a wait to these while the block runs. `seconds` is its length, if that is known."""
    wait = Wait(what, None if seconds is None else time.time() + seconds)
    waits.append(wait)
    try:
        yield
    finally:
        waits.remove(wait)
