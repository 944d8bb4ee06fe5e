"""Why nothing may start, and until when. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime


FORBIDDEN: Final = "robots.txt forbids it"
"""The reason of the failure of a tile that was not asked for."""


class HeldError(Exception):
    """Nothing may start now."""


class Reason(StrEnum):
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

    reason: Reason
    until: float | None = None
    """When it ends, in seconds since 1970. None if nobody knows."""


@dataclass(frozen=True, slots=True)
class Holds:
    """All that may hold the requests of a map back at one moment."""

    spent: bool = False
    """Whether a budget is spent, or the disk is full: the harvest is about to end."""
    paused: bool = False
    """Whether a person has paused the map."""
    quiet_until: datetime | None = None
    """When the present quiet hours without a rate end."""
    rests_until: float | None = None
    """When the rest of the host ends."""
    is_down: bool = False
    """Whether a host does not answer."""

    def at(self, now: float) -> Hold | None:
        """Returns what holds requests back, or None if they may start. Of several reasons the first one in
        this order is told: a host that is down may be probed unless anything else holds, too."""
        if self.spent:
            return Hold(Reason.SPENT)
        if self.paused:
            return Hold(Reason.PAUSED)
        if self.quiet_until is not None and self.quiet_until.timestamp() > now:
            return Hold(Reason.QUIET, self.quiet_until.timestamp())
        if self.rests_until is not None and self.rests_until > now:
            return Hold(Reason.RESTING, self.rests_until)
        return Hold(Reason.DOWN) if self.is_down else None
